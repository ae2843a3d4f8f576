/* vit_synthetic.c: checkpoints of the usual sizes with random weights and transformers' names.
 *
 * Random weights keep activations near 1 at any depth: a matrix is scaled by 1/sqrt(number of
 * inputs), and one whose output is added to the residual stream also by 1/sqrt(2 depth).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/synthetic.h"
#include "models/vit/vit_reader.h"

#define CLASSES 1000

static const struct spec {
    const char *name;
    enum fv_vit_kind kind;
    uint32_t width, depth, heads, hidden, patch, image;
    uint32_t registers, embeds;
    bool gated;
} specs[] = {
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
#define SPECS (sizeof specs / sizeof *specs)

/* Reads a name "block-WIDTHxHEADSxRATIO": a model of only one block, for benchmarks, with small
 * patches. */
static bool read_block(struct spec *out, const char *name)
{
    unsigned width, heads, ratio;
    int end = 0;
    if (sscanf(name, "block-%5ux%4ux%2u%n", &width, &heads, &ratio, &end) != 3 || name[end] ||
        width < 1 || heads < 1 || ratio < 1)
        return false;
    *out = (struct spec){.name = name,
                         .kind = FV_VIT_PLAIN,
                         .width = width,
                         .depth = 1,
                         .heads = heads,
                         .hidden = ratio * width,
                         .patch = 2,
                         .image = 64};
    return true;
}

bool fv_vit_has_synthetic(const char *name)
{
    struct spec alone;
    return read_block(&alone, name);
}

const char *fv_vit_synthetic(size_t index)
{
    return index < SPECS ? specs[index].name : NULL;
}

struct maker {
    fv_source *source;
    const struct spec *s;
    const fv_vit_names *n;
    fovea_status status;
};

static void add_tensor(struct maker *m, const char *prefix, const char *stem, const char *part,
                       uint64_t rows, uint64_t cols, float mean, float spread)
{
    char name[128];
    if (m->status != FOVEA_OK || !stem)
        return;
    snprintf(name, sizeof name, "%s%s%s", prefix, stem, part);
    m->status = fv_source_add(m->source, name, 2, (const uint64_t[]){rows, cols}, mean, spread);
}

/* Uniform values in [-spread, spread] have a standard deviation of spread / sqrt(3). */
static void matrix(struct maker *m, const char *prefix, const char *stem, const char *part,
                   uint64_t rows, uint64_t cols, float gain)
{
    add_tensor(m, prefix, stem, part, rows, cols, 0, gain * sqrtf(3.0f / (float)cols));
}

static void vector(struct maker *m, const char *prefix, const char *stem, const char *part,
                   uint64_t n)
{
    add_tensor(m, prefix, stem, part, 1, n, 0, 0.035f);
}

static void linear(struct maker *m, const char *prefix, const char *stem, uint64_t rows,
                   uint64_t cols, float gain)
{
    matrix(m, prefix, stem, "weight", rows, cols, gain);
    vector(m, prefix, stem, "bias", rows);
}

static void norm(struct maker *m, const char *prefix, const char *stem)
{
    add_tensor(m, prefix, stem, "weight", 1, m->s->width, 1, 0.1f);
    vector(m, prefix, stem, "bias", m->s->width);
}

static void block(struct maker *m, uint32_t i)
{
    const struct spec *s = m->s;
    const fv_vit_names *n = m->n;
    const float added = 1 / sqrtf(2 * (float)s->depth);
    char prefix[64];
    snprintf(prefix, sizeof prefix, n->block, i);
    norm(m, prefix, n->ln1);
    linear(m, prefix, n->q, s->width, s->width, 1);
    matrix(m, prefix, n->k, "weight", s->width, s->width, 1);
    if (s->kind != FV_VIT_DINOV3 && s->kind != FV_VIT_BEIT)
        vector(m, prefix, n->k, "bias", s->width);
    const uint64_t offsets = 2 * (s->image / s->patch) - 1;
    add_tensor(m, prefix, n->rel_bias, "", offsets * offsets + 3, s->heads, 0, 1);
    linear(m, prefix, n->v, s->width, s->width, 1);
    linear(m, prefix, n->proj, s->width, s->width, n->ls1 ? 1 : added);
    add_tensor(m, prefix, n->ls1, "", 1, s->width, added, added / 2);
    norm(m, prefix, n->ln2);
    const bool joined = s->gated && !n->gate;
    if (s->gated && n->gate)
        linear(m, prefix, n->gate, s->hidden, s->width, 1);
    linear(m, prefix,
           joined     ? n->gated1
           : s->gated ? n->up
                      : n->fc1,
           joined ? 2 * s->hidden : s->hidden, s->width, 1);
    linear(m, prefix, s->gated ? n->gated2 : n->fc2, s->width, s->hidden, n->ls2 ? 1 : added);
    add_tensor(m, prefix, n->ls2, "", 1, s->width, added, added / 2);
}

static void heads(struct maker *m)
{
    const struct spec *s = m->s;
    const fv_vit_names *n = m->n;
    norm(m, "", s->kind == FV_VIT_BEIT ? n->fc_norm : n->post);
    switch (s->kind) {
    case FV_VIT_PLAIN:
    case FV_VIT_BEIT:
        linear(m, "", n->head, CLASSES, s->width, 1);
        break;
    case FV_VIT_DEIT:
        linear(m, "", n->head_cls, CLASSES, s->width, 1);
        linear(m, "", n->head_dist, CLASSES, s->width, 1);
        break;
    case FV_VIT_DINOV2:
    case FV_VIT_REGISTERS:
        linear(m, "", n->head, CLASSES, 2 * (uint64_t)s->width, 1);
        break;
    case FV_VIT_DINOV3:
    case FV_VIT_IJEPA:
    case FV_VIT_OWL:
    case FV_VIT_EVA:
    case FV_VIT_NAFLEX:
    case FV_VIT_IDEFICS:
    case FV_VIT_RADIO:
    case FV_VIT_POSE:
        break;
    case FV_VIT_CLIP:
        matrix(m, "", n->embeds, "", s->embeds, s->width, 1);
        break;
    case FV_VIT_SIGLIP:
        vector(m, "", n->probe, "", s->width);
        linear(m, "", n->map_qkv, 3 * (uint64_t)s->width, s->width, 1);
        linear(m, "", n->map_proj, s->width, s->width, 1);
        norm(m, "", n->map_ln);
        linear(m, "", n->map_fc1, s->hidden, s->width, 1);
        linear(m, "", n->map_fc2, s->width, s->hidden, 1);
        break;
    }
}

static void tokens(struct maker *m)
{
    const struct spec *s = m->s;
    const uint32_t side = s->image / s->patch;
    uint32_t before = 0;
    if (s->kind != FV_VIT_SIGLIP && s->kind != FV_VIT_IJEPA) {
        vector(m, "", m->n->cls, "", s->width);
        before++;
    }
    if (s->kind == FV_VIT_DEIT) {
        vector(m, "", m->n->dist, "", s->width);
        before++;
    }
    if (s->registers)
        add_tensor(m, "", m->n->reg, "", s->registers, s->width, 0, 0.035f);
    if (s->kind != FV_VIT_BEIT)
        add_tensor(m, "", m->n->pos, "", (uint64_t)before + side * side, s->width, 0, 0.035f);
}

static json_t *make_config(const struct spec *s)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o*, s:s*}", "model_type",
                     fv_vit_kinds[s->kind].name, "hidden_size", (int)s->width, "num_hidden_layers",
                     (int)s->depth, "num_attention_heads", (int)s->heads, "intermediate_size",
                     (int)s->hidden, "patch_size", (int)s->patch, "image_size", (int)s->image,
                     "num_register_tokens", (int)s->registers, "use_relative_position_bias",
                     s->kind == FV_VIT_BEIT ? json_true() : NULL, "hidden_act",
                     s->kind == FV_VIT_DINOV3 && s->gated ? "silu" : NULL);
}

fovea_status fv_vit_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    struct maker m = {.source = source, .s = specs, .n = fv_vit_schemes, .status = FOVEA_OK};
    struct spec alone;
    if (read_block(&alone, name))
        m.s = &alone;
    while (strcmp(m.s->name, name) != 0)
        m.s++;
    while (!(m.n->kinds >> m.s->kind & 1) || m.n->in_memory)
        m.n++;
    const struct spec *s = m.s;
    matrix(&m, "", m.n->patch, "weight", s->width, 3 * (uint64_t)s->patch * s->patch, 1);
    if (s->kind != FV_VIT_CLIP && s->kind != FV_VIT_OWL)
        vector(&m, "", m.n->patch, "bias", s->width);
    tokens(&m);
    if (m.n->pre && m.n->origin == FV_VIT_HF && s->kind != FV_VIT_SIGLIP)
        norm(&m, "", m.n->pre);
    for (uint32_t i = 0; i < s->depth; i++)
        block(&m, i);
    heads(&m);
    return fv_synthetic_end(config, name, m.status, make_config(s));
}
