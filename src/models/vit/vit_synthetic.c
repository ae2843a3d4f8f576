/* vit_synthetic.c: makes checkpoints of the usual sizes with random weights and transformers'
 * names, and the encoders of other models that contain a ViT. */
#include "models/vit/vit_synthetic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLASSES 1000

static const fv_vit_spec specs[] = {
    {"vit-ti16", FV_VIT_PLAIN, 192, 12, 3, 768, 16, 224, 0, 0, false},
    {"vit-s16", FV_VIT_PLAIN, 384, 12, 6, 1536, 16, 224, 0, 0, false},
    {"vit-b16", FV_VIT_PLAIN, 768, 12, 12, 3072, 16, 224, 0, 0, false},
    {"vit-b32", FV_VIT_PLAIN, 768, 12, 12, 3072, 32, 224, 0, 0, false},
    {"vit-l16", FV_VIT_PLAIN, 1024, 24, 16, 4096, 16, 224, 0, 0, false},
    {"vit-h14", FV_VIT_PLAIN, 1280, 32, 16, 5120, 14, 224, 0, 0, false},
    {"deit-ti", FV_VIT_DEIT, 192, 12, 3, 768, 16, 224, 0, 0, false},
    {"deit-s", FV_VIT_DEIT, 384, 12, 6, 1536, 16, 224, 0, 0, false},
    {"deit-b", FV_VIT_DEIT, 768, 12, 12, 3072, 16, 224, 0, 0, false},
    {"dinov2-s", FV_VIT_DINOV2, 384, 12, 6, 1536, 14, 518, 0, 0, false},
    {"dinov2-b", FV_VIT_DINOV2, 768, 12, 12, 3072, 14, 518, 0, 0, false},
    {"dinov2-l", FV_VIT_DINOV2, 1024, 24, 16, 4096, 14, 518, 0, 0, false},
    {"dinov2-g", FV_VIT_DINOV2, 1536, 40, 24, 4096, 14, 518, 0, 0, true},
    {"dinov2-s-reg", FV_VIT_REGISTERS, 384, 12, 6, 1536, 14, 518, 4, 0, false},
    {"dinov2-b-reg", FV_VIT_REGISTERS, 768, 12, 12, 3072, 14, 518, 4, 0, false},
    {"dinov2-l-reg", FV_VIT_REGISTERS, 1024, 24, 16, 4096, 14, 518, 4, 0, false},
    {"dinov2-g-reg", FV_VIT_REGISTERS, 1536, 40, 24, 4096, 14, 518, 4, 0, true},
    {"dinov3-s", FV_VIT_DINOV3, 384, 12, 6, 1536, 16, 224, 4, 0, false},
    {"dinov3-s-plus", FV_VIT_DINOV3, 384, 12, 6, 1536, 16, 224, 4, 0, true},
    {"dinov3-b", FV_VIT_DINOV3, 768, 12, 12, 3072, 16, 224, 4, 0, false},
    {"dinov3-l", FV_VIT_DINOV3, 1024, 24, 16, 4096, 16, 224, 4, 0, false},
    {"dinov3-h-plus", FV_VIT_DINOV3, 1280, 32, 20, 5120, 16, 224, 4, 0, true},
    {"beitv2-b16", FV_VIT_BEIT, 768, 12, 12, 3072, 16, 224, 0, 0, false},
    {"beitv2-l16", FV_VIT_BEIT, 1024, 24, 16, 4096, 16, 224, 0, 0, false},
    {"ijepa-h14", FV_VIT_IJEPA, 1280, 32, 16, 5120, 14, 224, 0, 0, false},
    {"ijepa-h16", FV_VIT_IJEPA, 1280, 32, 16, 5120, 16, 448, 0, 0, false},
    {"owlv2-b16", FV_VIT_OWL, 768, 12, 12, 3072, 16, 960, 0, 0, false},
    {"owlv2-l14", FV_VIT_OWL, 1024, 24, 16, 4096, 14, 1008, 0, 0, false},
    {"clip-b32", FV_VIT_CLIP, 768, 12, 12, 3072, 32, 224, 0, 512, false},
    {"clip-b16", FV_VIT_CLIP, 768, 12, 12, 3072, 16, 224, 0, 512, false},
    {"clip-l14", FV_VIT_CLIP, 1024, 24, 16, 4096, 14, 224, 0, 768, false},
    {"siglip-b16", FV_VIT_SIGLIP, 768, 12, 12, 3072, 16, 224, 0, 0, false},
    {"siglip-l16", FV_VIT_SIGLIP, 1024, 24, 16, 4096, 16, 256, 0, 0, false},
    {"siglip-so400m", FV_VIT_SIGLIP, 1152, 27, 16, 4304, 14, 384, 0, 0, false},
};

/* Reads a name "block-WIDTHxHEADSxRATIO": a model of only one block, for benchmarks, with small
 * patches. */
static bool read_block(fv_vit_spec *out, const char *name)
{
    unsigned width, heads, ratio;
    int end = 0;
    if (sscanf(name, "block-%5ux%4ux%2u%n", &width, &heads, &ratio, &end) != 3 || name[end] ||
        width < 1 || heads < 1 || ratio < 1)
        return false;
    *out = (fv_vit_spec){.name = name,
                         .kind = FV_VIT_PLAIN,
                         .width = width,
                         .depth = 1,
                         .heads = heads,
                         .hidden = ratio * width,
                         .patch = 2,
                         .image = 64};
    return true;
}

static bool has(const char *name)
{
    fv_vit_spec alone;
    return read_block(&alone, name);
}

/* Returns the names of the kind's tensors in transformers' files. */
static const fv_vit_names *usual_names(enum fv_vit_kind kind)
{
    const fv_vit_names *n = fv_vit_schemes;
    while (!(n->kinds >> kind & 1) || n->in_memory)
        n++;
    return n;
}

/* ---- the encoder ---- */

static void block(fv_synthetic *m, const fv_vit_spec *s, uint32_t i)
{
    const fv_vit_names *n = s->names;
    const uint32_t c = s->width;
    const float added = fv_synthetic_added(2 * s->depth), gain = n->ls1 && !s->scaled ? 1 : added;
    const float scale = s->scaled ? 1 : added, spread = s->scaled ? 0.1f : added / 2;
    const uint64_t offsets = 2 * (s->image / s->patch) - 1;
    const bool joined = s->gated && !n->gate;
    char name[32];
    snprintf(name, sizeof name, n->block, i);
    fv_synthetic_under(m, "%s%s", s->root, name);
    fv_synthetic_norm(m, n->ln1, c);
    fv_synthetic_linear(m, n->q, c, c, 1, 1);
    fv_synthetic_matrix(m, n->k, c, c, 1, 1);
    if (s->kind != FV_VIT_DINOV3 && s->kind != FV_VIT_BEIT && s->kind != FV_VIT_LW_DETR)
        fv_synthetic_bias(m, n->k, c);
    fv_synthetic_table(m, n->rel_bias, offsets * offsets + 3, s->heads, 1);
    fv_synthetic_linear(m, n->v, c, c, 1, 1);
    fv_synthetic_linear(m, n->proj, c, c, 1, gain);
    fv_synthetic_vector(m, n->ls1, c, scale, spread);
    fv_synthetic_norm(m, n->ln2, c);
    if (s->gated && n->gate)
        fv_synthetic_linear(m, n->gate, s->hidden, c, 1, 1);
    fv_synthetic_linear(m,
                        joined     ? n->gated1
                        : s->gated ? n->up
                                   : n->fc1,
                        joined ? 2 * s->hidden : s->hidden, c, 1, 1);
    fv_synthetic_linear(m, s->gated ? n->gated2 : n->fc2, c, s->hidden, 1, gain);
    fv_synthetic_vector(m, n->ls2, c, scale, spread);
}

static void tokens(fv_synthetic *m, const fv_vit_spec *s)
{
    const fv_vit_names *n = s->names;
    const uint32_t rows = s->image / s->patch, cols = s->image_width / s->patch;
    const bool class = fv_vit_kinds[s->kind].parts & FV_VIT_HAS_CLASS;
    /* position rows before those of the patches */
    uint32_t before = class || s->kind == FV_VIT_POSE || s->kind == FV_VIT_LW_DETR;
    const uint32_t after = s->kind == FV_VIT_YOLOS ? s->registers : 0;
    if (class)
        fv_synthetic_vector(m, n->cls, s->width, 0, s->spread);
    if (s->kind == FV_VIT_DEIT) {
        fv_synthetic_vector(m, n->dist, s->width, 0, s->spread);
        before++;
    }
    if (s->registers)
        fv_synthetic_table(m, n->reg, s->registers, s->width, s->spread);
    if (s->kind != FV_VIT_BEIT)
        fv_synthetic_table(m, n->pos,
                           (n->patch_positions ? 0 : before) + (uint64_t)rows * cols + after,
                           s->width, s->spread);
}

void fv_vit_synthetic_encoder(fv_synthetic *m, fv_vit_spec *s)
{
    const uint16_t parts = fv_vit_kinds[s->kind].parts;
    const fv_vit_names *n = s->names = s->names ? s->names : usual_names(s->kind);
    s->root = s->root ? s->root : "";
    s->image_width = s->image_width ? s->image_width : s->image;
    s->spread = s->spread > 0 ? s->spread : 0.035f;
    for (uint32_t i = 0; i < s->depth; i++)
        block(m, s, i);
    fv_synthetic_under(m, "%s", s->root);
    fv_synthetic_matrix(m, n->patch, s->width, 3, s->patch, 1);
    if (parts & FV_VIT_HAS_PATCH_BIAS)
        fv_synthetic_bias(m, n->patch, s->width);
    tokens(m, s);
    if (parts & FV_VIT_HAS_PRE_NORM)
        fv_synthetic_norm(m, n->pre, s->width);
    fv_synthetic_norm(m, s->kind == FV_VIT_BEIT ? n->fc_norm : n->post, s->width);
    fv_synthetic_under(m, "%s", "");
}

json_t *fv_vit_synthetic_config(const fv_vit_spec *s, const char *type)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:[i, i]}", "model_type", type, "hidden_size",
                     (int)s->width, "num_hidden_layers", (int)s->depth, "num_attention_heads",
                     (int)s->heads, "patch_size", (int)s->patch, "image_size", (int)s->image,
                     (int)s->image_width);
}

/* ---- a whole model ---- */

static void heads(fv_synthetic *m, const fv_vit_spec *s)
{
    const fv_vit_names *n = s->names;
    const uint32_t c = s->width;
    switch (s->kind) {
    case FV_VIT_PLAIN:
    case FV_VIT_BEIT:
        fv_synthetic_linear(m, n->head, CLASSES, c, 1, 1);
        break;
    case FV_VIT_DEIT:
        fv_synthetic_linear(m, n->head_cls, CLASSES, c, 1, 1);
        fv_synthetic_linear(m, n->head_dist, CLASSES, c, 1, 1);
        break;
    case FV_VIT_DINOV2:
    case FV_VIT_REGISTERS:
        fv_synthetic_linear(m, n->head, CLASSES, 2 * c, 1, 1);
        break;
    case FV_VIT_CLIP:
        fv_synthetic_table(m, n->embeds, s->embeds, c, sqrtf(3 / (float)c));
        break;
    case FV_VIT_SIGLIP:
        fv_synthetic_vector(m, n->probe, c, 0, s->spread);
        fv_synthetic_linear(m, n->map_qkv, 3 * c, c, 1, 1);
        fv_synthetic_linear(m, n->map_proj, c, c, 1, 1);
        fv_synthetic_norm(m, n->map_ln, c);
        fv_synthetic_linear(m, n->map_fc1, s->hidden, c, 1, 1);
        fv_synthetic_linear(m, n->map_fc2, c, s->hidden, 1, 1);
        break;
    case FV_VIT_DINOV3:
    case FV_VIT_IJEPA:
    case FV_VIT_OWL:
    case FV_VIT_EVA:
    case FV_VIT_NAFLEX:
    case FV_VIT_IDEFICS:
    case FV_VIT_RADIO:
    case FV_VIT_POSE:
    case FV_VIT_TIPS:
    case FV_VIT_PIXIO:
    case FV_VIT_GIT:
    case FV_VIT_BLIP:
    case FV_VIT_JANUS:
    case FV_VIT_INTERN:
    case FV_VIT_AIM:
    case FV_VIT_MLCD:
    case FV_VIT_MGP:
    case FV_VIT_LW_DETR:
    case FV_VIT_YOLOS:
    case FV_VIT_QWEN2:
    case FV_VIT_QWEN2_5:
    case FV_VIT_QWEN3:
    case FV_VIT_GLM:
    case FV_VIT_GLM_OCR:
    case FV_VIT_GLM_IMAGE:
    case FV_VIT_PIXTRAL:
    case FV_VIT_KIMI:
    case FV_VIT_PADDLE:
    case FV_VIT_HUNYUAN:
    case FV_VIT_STEP:
        break;
    }
}

static json_t *make(fv_synthetic *m, const void *size)
{
    fv_vit_spec s;
    if (size)
        s = *(const fv_vit_spec *)size;
    else
        read_block(&s, m->name);
    fv_vit_synthetic_encoder(m, &s);
    heads(m, &s);
    json_t *config = fv_vit_synthetic_config(&s, fv_vit_kinds[s.kind].name);
    json_t *more = json_pack("{s:i, s:i, s:o*, s:s*}", "intermediate_size", (int)s.hidden,
                             "num_register_tokens", (int)s.registers, "use_relative_position_bias",
                             s.kind == FV_VIT_BEIT ? json_true() : NULL, "hidden_act",
                             s.kind == FV_VIT_DINOV3 && s.gated ? "silu" : NULL);
    return fv_synthetic_join(config, more);
}

const fv_synthetic_list fv_vit_synthetics = {FV_SYNTHETIC_SIZES(specs), .has = has, .make = make};
