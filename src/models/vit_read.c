/* vit_read.c: the roles of a ViT from the names and shapes of a checkpoint.
 *
 * Sizes come from config.json where it has them and from the tensors where it has not; each tensor
 * is then checked against them.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "attention.h"
#include "config.h"
#include "mech/traits.h"
#include "processor.h"
#include "segmentation.h"
#include "take.h"
#include "vit.h"

#define WIDTH 65536
#define HIDDEN (1u << 20)
#define DEPTH 1024
#define PATCH 1024
#define REGISTERS 4096
#define SIDE 4096 /* of the position table, in patches */
#define CLASSES (1u << 24)
#define SLA_Q "attn.sla_q."
#define SLA_K "attn.sla_k."
#define LEARNED 2
#define VECTORS "attn.vectors" /* learned, of the attention's feature map: (vectors, C) */

static const struct kind_info {
    const char *name;
    float eps; /* of transformers' configuration class */
    uint32_t act;
    enum fv_processor processor;
} kinds[] = {
    [FV_VIT_PLAIN] = {"vit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VIT},
    [FV_VIT_DEIT] = {"deit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_DEIT},
    [FV_VIT_DINOV2] = {"dinov2", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2},
    [FV_VIT_REGISTERS] = {"dinov2_with_registers", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2},
    [FV_VIT_CLIP] = {"clip_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_CLIP},
    [FV_VIT_SIGLIP] = {"siglip_vision_model", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_SIGLIP},
};

/* A model_type of transformers, or a name of timm or torch.hub, by what it begins with and
 * contains; the first line that fits. */
static const struct {
    const char *begin, *part; /* a NULL part: the name is `begin` exactly */
    enum fv_vit_kind kind;
} types[] = {
    {"vit", NULL, FV_VIT_PLAIN},
    {"deit", NULL, FV_VIT_DEIT},
    {"dinov2", NULL, FV_VIT_DINOV2},
    {"dinov2_with_registers", NULL, FV_VIT_REGISTERS},
    {"clip", NULL, FV_VIT_CLIP},
    {"clip_vision_model", NULL, FV_VIT_CLIP},
    {"siglip", NULL, FV_VIT_SIGLIP},
    {"siglip_vision_model", NULL, FV_VIT_SIGLIP},
    {"dinov2_vit", "_reg", FV_VIT_REGISTERS},
    {"dinov2_vit", "", FV_VIT_DINOV2},
    {"vit_", "_reg4_dinov2", FV_VIT_REGISTERS},
    {"vit_", "_dinov2", FV_VIT_DINOV2},
    {"vit_", "_clip_", FV_VIT_CLIP},
    {"vit_", "_siglip_", FV_VIT_SIGLIP},
    {"vit_", "", FV_VIT_PLAIN},
    {"deit", "", FV_VIT_DEIT},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool find_kind(enum fv_vit_kind *out, const char *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *part = types[i].part;
        if (part ? begins(type, types[i].begin) && strstr(type, part)
                 : strcmp(type, types[i].begin) == 0) {
            *out = types[i].kind;
            return true;
        }
    }
    return false;
}

bool fv_vit_owns(const char *model_type)
{
    enum fv_vit_kind kind;
    return find_kind(&kind, model_type);
}

struct reader {
    fv_taker t;
    const fv_config *config; /* the whole of config.json */
    fv_config vision;        /* the section that describes this tower */
    fv_config own;           /* the section "fovea" */
    const char *type;
    enum fv_vit_kind kind;
    const fv_vit_names *n;
    const char *prefix;
    fv_vit *v;
    char block[96]; /* prefix of the block being read */
    uint32_t chunk; /* DINOv2 keeps its blocks in chunks: the one of the last block */
    bool bias, scaled, gated;
    enum { SLA_TOLD_BY_SHAPE, SLA_Q_BLOCKDIAG, SLA_Q_DENSE, SLA_X_DENSE } sla;
};

/* ---- what it is ---- */

static fovea_status find_scheme(struct reader *r)
{
    for (r->n = fv_vit_schemes; r->n->patch; r->n++)
        for (const char *const *p = fv_vit_prefixes; *p; p++) {
            const char *const *mark = r->n->marks;
            bool marked = !mark[0];
            if (!(r->n->kinds >> r->kind & 1) || !fv_take_unwrap(&r->t, *p, r->n->patch, "weight"))
                continue;
            for (int i = 0; i < 3 && mark[i]; i++)
                marked = marked || fv_take_look(&r->t, *p, mark[i], "");
            r->prefix = *p;
            if (marked)
                return FOVEA_OK;
        }
    return fv_fail(FOVEA_EFORMAT,
                   "%s: its tensors have none of the names of a %s; is \"model_type\" in %s right?",
                   r->t.source->name, kinds[r->kind].name, r->config->file);
}

/* Prefix of block i in r->block; false when the checkpoint has no such block. */
static bool find_block(struct reader *r, uint32_t i)
{
    char stem[64];
    snprintf(stem, sizeof stem, r->n->block, i);
    snprintf(r->block, sizeof r->block, "%s%s", r->prefix, stem);
    if (fv_take_look(&r->t, r->block, r->n->ln1, "weight"))
        return true;
    for (; r->n->origin == FV_VIT_DINO && r->chunk <= i; r->chunk++) {
        snprintf(stem, sizeof stem, "blocks.%u.%u.", r->chunk, i);
        snprintf(r->block, sizeof r->block, "%s%s", r->prefix, stem);
        if (fv_take_look(&r->t, r->block, r->n->ln1, "weight"))
            return true;
    }
    return false;
}

static fovea_status check_size(const struct reader *r, const char *what, uint32_t value,
                               uint32_t limit)
{
    if (value == 0 || value > limit)
        return fv_fail(FOVEA_EFORMAT, "%s: %s %u is out of range (1 to %u)", r->t.source->name,
                       what, value, limit);
    return FOVEA_OK;
}

/* Heads of checkpoints that do not tell: of 64 channels but for a few widths (timm, OpenCLIP). */
static uint32_t usual_heads(uint32_t width)
{
    switch (width) {
    case 1152:
    case 1280:
    case 1408:
    case 1664:
        return 16;
    default:
        return width % 64 == 0 ? width / 64 : 0;
    }
}

static fovea_status read_heads(struct reader *r)
{
    fv_vit *v = r->v;
    fv_config arguments;
    v->heads = 0;
    if (r->n->origin != FV_VIT_HF)
        v->heads = usual_heads(v->width);
    else if (r->vision.object != r->config->object)
        v->heads = 12; /* transformers leaves out what is as in its class */
    FV_TRY(fv_config_section(&arguments, r->config, "model_args"));
    FV_TRY(fv_config_u32(&v->heads, &arguments, "num_heads", 1, WIDTH));
    FV_TRY(fv_config_u32(&v->heads, &r->vision, "num_attention_heads", 1, WIDTH));
    FV_TRY(fv_config_u32(&v->heads, &r->own, "heads", 1, WIDTH));
    if (v->heads == 0)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the number of heads is not known; add \"fovea\": {\"heads\": N}",
                       r->config->file);
    if (v->width % v->heads != 0 || v->heads > UINT16_MAX)
        return fv_fail(FOVEA_EFORMAT, "%s: %u heads do not divide a width of %u", r->config->file,
                       v->heads, v->width);
    return FOVEA_OK;
}

static fovea_status read_activation(struct reader *r)
{
    static const struct {
        const char *name;
        uint32_t epi;
    } known[] = {
        {"gelu", FV_EPI_GELU},           {"gelu_python", FV_EPI_GELU},
        {"gelu_tanh", FV_EPI_GELU_TANH}, {"gelu_pytorch_tanh", FV_EPI_GELU_TANH},
        {"gelu_new", FV_EPI_GELU_TANH},  {"gelu_fast", FV_EPI_GELU_TANH},
        {"silu", FV_EPI_SILU},           {"quick_gelu", FV_EPI_GELU_QUICK},
        {"swish", FV_EPI_SILU},          {"gelu_quick", FV_EPI_GELU_QUICK},
        {"relu", FV_EPI_RELU},
    };
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->vision, "hidden_act"));
    FV_TRY(fv_config_text(&name, &r->own, "activation"));
    r->v->epi = kinds[r->kind].act;
    if (!name && r->n->origin == FV_VIT_TIMM)
        /* What timm's definitions say; its one other SigLIP is B/32. */
        name = strstr(r->type, "quickgelu")                             ? "quick_gelu"
               : r->kind == FV_VIT_SIGLIP && strstr(r->type, "patch32") ? "gelu_tanh"
                                                                        : "gelu";
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            r->v->epi = known[i].epi;
            return FOVEA_OK;
        }
    return name ? fv_fail(FOVEA_ENOTSUP, "%s: activation \"%.40s\" is not supported",
                          r->config->file, name)
                : FOVEA_OK;
}

static fovea_status read_eps(struct reader *r)
{
    float *eps = &r->v->eps;
    bool plain = r->n->origin != FV_VIT_HF && r->kind != FV_VIT_CLIP;
    *eps = plain ? 1e-6f : kinds[r->kind].eps;
    FV_TRY(fv_config_float(eps, &r->vision, "layer_norm_eps", 0, 1));
    return fv_config_float(eps, &r->own, "eps", 0, 1);
}

/* Width, patch and depth; heads and the numbers of the arithmetic. */
static fovea_status read_sizes(struct reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *patch = fv_take_look(&r->t, r->prefix, r->n->patch, "weight");
    uint32_t high;
    bool square, conv = patch->rank == 4;
    v->width = fv_take_dimension(patch, 0);
    v->channels = conv ? fv_take_dimension(patch, 1) : 3;
    v->patch = conv ? fv_take_dimension(patch, 3) : 0;
    high = conv ? fv_take_dimension(patch, 2) : 0;
    FV_TRY(fv_config_u32(&v->width, &r->vision, "hidden_size", 1, WIDTH));
    FV_TRY(fv_config_u32(&v->channels, &r->vision, "num_channels", 1, WIDTH));
    FV_TRY(fv_config_size(&v->patch, &high, &square, &r->vision, "patch_size"));
    FV_TRY(fv_config_size(&v->patch, &high, &square, &r->own, "patch_size"));
    FV_TRY(check_size(r, "width", v->width, WIDTH));
    FV_TRY(check_size(r, "patch size", v->patch, PATCH));
    if (high != v->patch)
        return fv_fail(FOVEA_ENOTSUP, "%s: patches of %u x %u; only square ones are supported",
                       r->t.source->name, v->patch, high);
    if (v->channels != 3)
        return fv_fail(FOVEA_ENOTSUP, "%s: made for %u channels; only RGB models are supported",
                       r->t.source->name, v->channels);
    FV_TRY(fv_config_u32(&v->depth, &r->vision, "num_hidden_layers", 1, DEPTH));
    if (v->depth == 0)
        while (v->depth <= DEPTH && find_block(r, v->depth))
            v->depth++;
    FV_TRY(check_size(r, "number of blocks", v->depth, DEPTH));
    FV_TRY(read_heads(r));
    FV_TRY(read_activation(r));
    return read_eps(r);
}

/* How the logits of SLA's gates are made of "attn.sla_q.weight" and "attn.sla_k.weight" of a block:
 * (d, heads) is q_blockdiag, the others look alike. */
static fovea_status read_sla_form(struct reader *r)
{
    static const char *const names[] = {
        [SLA_Q_BLOCKDIAG] = "q_blockdiag", [SLA_Q_DENSE] = "q_dense", [SLA_X_DENSE] = "x_dense"};
    const uint32_t d = r->v->width / r->v->heads;
    const fv_tensor *t = fv_take_look(&r->t, r->block, SLA_Q, "weight");
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->own, "sla_gates"));
    for (int i = SLA_Q_BLOCKDIAG; name && i <= SLA_X_DENSE; i++)
        if (strcmp(names[i], name) == 0)
            r->sla = i;
    if (name && r->sla == SLA_TOLD_BY_SHAPE)
        return fv_config_fail(&r->own, "sla_gates", "q_blockdiag, q_dense or x_dense");
    if (t && r->sla == SLA_TOLD_BY_SHAPE && d != r->v->width &&
        fv_take_dimension(t, 0) == r->v->width)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%.80s\" may be made for q or for the block's input; add "
                       "\"fovea\": {\"sla_gates\": \"q_dense\"} or \"x_dense\" to %s",
                       r->t.source->name, t->name, r->config->file);
    if (r->sla == SLA_TOLD_BY_SHAPE)
        r->sla = SLA_Q_BLOCKDIAG;
    r->v->sla_of_x = r->sla == SLA_X_DENSE;
    return FOVEA_OK;
}

/* Biases of q, k and v, layer scale, gated MLP and hidden width, as the first block has them. */
static fovea_status read_block_form(struct reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    r->chunk = 0;
    if (!find_block(r, 0))
        return fv_take_missing(&r->t, r->block, "of the first block");
    r->bias = fv_take_look(&r->t, r->block, n->qkv ? n->qkv : n->q, "bias") != NULL;
    if (n->origin == FV_VIT_HF)
        r->bias = true;
    FV_TRY(fv_config_bool(&r->bias, &r->vision, "qkv_bias"));
    bool scales = r->kind == FV_VIT_DINOV2 || r->kind == FV_VIT_REGISTERS;
    r->scaled =
        n->ls1 && ((scales && n->origin == FV_VIT_HF) || fv_take_look(&r->t, r->block, n->ls1, ""));
    r->gated = n->gated1 && fv_take_look(&r->t, r->block, n->gated1, "weight");
    FV_TRY(read_sla_form(r));
    const fv_tensor *fc1 = fv_take_look(&r->t, r->block, r->gated ? n->gated1 : n->fc1, "weight");
    const fv_tensor *fc2 = fv_take_look(&r->t, r->block, r->gated ? n->gated2 : n->fc2, "weight");
    v->hidden = fv_take_dimension(fc2, 1);
    FV_TRY(fv_config_u32(&v->hidden, &r->vision, "intermediate_size", 1, HIDDEN));
    if (n->origin == FV_VIT_TIMM && fv_take_dimension(fc1, 0) == 2 * v->hidden)
        v->epi = FV_EPI_SWIGLU;
    if (r->gated)
        v->epi = FV_EPI_SWIGLU;
    return check_size(r, "width of the MLP", v->hidden, HIDDEN);
}

/* ---- tokens and positions ---- */

/* Cuts the position table of `rows` rows into `*lead` rows of prefix tokens and a grid: that of the
 * picture size that config.json names, else a square. */
static fovea_status cut_table(struct reader *r, uint32_t rows, uint32_t *lead)
{
    fv_vit *v = r->v;
    uint32_t w = 0, h = 0;
    bool square;
    /* timm may give positions to all prefix tokens, to none, or to those of the class. */
    const uint32_t leads[] = {v->class_tokens, v->prefix, 0};
    const int n_leads = r->n->origin == FV_VIT_TIMM ? 3 : 1;
    FV_TRY(fv_config_size(&w, &h, &square, &r->vision, "image_size"));
    v->table_width = w / v->patch;
    v->table_height = h / v->patch;
    uint64_t expected = (uint64_t)v->table_width * v->table_height;
    for (int i = 0; i < n_leads && expected; i++)
        if (rows == leads[i] + expected) {
            *lead = leads[i];
            r->t.m->info.native_width = w;
            r->t.m->info.native_height = h;
            return check_size(r, "side of the position table", w > h ? w / v->patch : h / v->patch,
                              SIDE);
        }
    if (expected)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: its position table has %u rows, but \"image_size\" in %s asks for %u + "
                       "%llu; correct it to what the checkpoint was made for",
                       r->t.source->name, rows, r->config->file, v->class_tokens,
                       (unsigned long long)expected);
    for (int i = 0; i < n_leads; i++)
        for (uint32_t side = 1; side <= SIDE; side++)
            if (rows > leads[i] && side * side == rows - leads[i]) {
                *lead = leads[i];
                v->table_width = v->table_height = side;
                r->t.m->info.native_width = r->t.m->info.native_height = side * v->patch;
                return FOVEA_OK;
            }
    return fv_fail(FOVEA_EFORMAT,
                   "%s: a position table of %u rows is no square; add \"image_size\": [height, "
                   "width] to %s",
                   r->t.source->name, rows, r->config->file);
}

static fovea_status read_positions(struct reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *t = fv_take_look(&r->t, r->prefix, r->n->pos, "");
    if (!t)
        return fv_take_missing(&r->t, r->n->pos, "of positions");
    uint64_t rows = t->elements / v->width;
    uint32_t lead = 0;
    const uint64_t shape[2] = {rows, v->width};
    if (rows > (uint64_t)SIDE * SIDE + REGISTERS)
        return check_size(r, "length of the position table", UINT32_MAX, SIDE * SIDE);
    FV_TRY(fv_take_tensor(&t, &r->t, r->prefix, r->n->pos, "", 2, shape));
    FV_TRY(cut_table(r, (uint32_t)rows, &lead));
    uint32_t patches = v->table_width * v->table_height;
    v->table = (fv_weight){.rows = patches, .cols = v->width};
    fv_weight_add(&v->table, (fv_weight_part){.tensor = t,
                                              .offset = (uint64_t)lead * v->width,
                                              .rows = patches,
                                              .cols = v->width});
    if (lead == 0)
        return FOVEA_OK;
    v->prefix_add = (fv_weight){.rows = v->prefix, .cols = v->width};
    fv_weight_add(&v->prefix_add, (fv_weight_part){.tensor = t, .rows = lead, .cols = v->width});
    return FOVEA_OK;
}

static fovea_status read_position_rule(struct reader *r)
{
    static const char *const names[] = {[FV_POS_PLAIN] = "plain",
                                        [FV_POS_OFFSET] = "offset",
                                        [FV_POS_AA] = "aa",
                                        [FV_POS_BILINEAR] = "bilinear"};
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->own, "pos_interp"));
    for (int i = 0; name && i < 4; i++)
        if (strcmp(names[i], name) == 0) {
            r->v->pos_rule = (enum fv_pos_rule)i;
            return FOVEA_OK;
        }
    if (name)
        return fv_config_fail(&r->own, "pos_interp", "plain, offset, aa or bilinear");
    bool registers = fv_take_look(&r->t, r->prefix, r->n->reg, "") != NULL;
    switch (r->n->origin) {
    case FV_VIT_HF:
        r->v->pos_rule = r->kind == FV_VIT_REGISTERS ? FV_POS_AA : FV_POS_PLAIN;
        return FOVEA_OK;
    case FV_VIT_DINO:
        r->v->pos_rule = registers ? FV_POS_AA : FV_POS_OFFSET;
        return FOVEA_OK;
    case FV_VIT_TIMM:
        if (strcmp(r->type, "dinov2") == 0)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: names of timm or of DINOv2's authors, who resize positions "
                           "differently; add \"fovea\": {\"pos_interp\": \"aa\"} (timm) or "
                           "\"offset\"",
                           r->config->file);
        r->v->pos_rule = FV_POS_AA;
        return FOVEA_OK;
    case FV_VIT_OPENAI:
        r->v->pos_rule = FV_POS_AA; /* as OpenCLIP does */
        return FOVEA_OK;
    }
    return FOVEA_OK;
}

/* Rows before the patches: class, distillation, registers. */
static fovea_status read_prefix(struct reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const uint32_t c = v->width;
    bool hf = n->origin == FV_VIT_HF;
    bool cls = hf ? r->kind != FV_VIT_SIGLIP : fv_take_look(&r->t, r->prefix, n->cls, "") != NULL;
    bool dist = cls && n->dist &&
                ((hf && r->kind == FV_VIT_DEIT) || fv_take_look(&r->t, r->prefix, n->dist, ""));
    const fv_tensor *reg = fv_take_look(&r->t, r->prefix, n->reg, "");
    uint32_t registers = 0;
    if (reg) {
        uint64_t rows = reg->elements / c;
        registers = rows > REGISTERS ? UINT32_MAX : (uint32_t)rows;
        FV_TRY(check_size(r, "number of registers", registers, REGISTERS));
    }
    if (hf && r->kind == FV_VIT_REGISTERS)
        FV_TRY(fv_config_u32(&registers, &r->vision, "num_register_tokens", 0, REGISTERS));
    v->class_tokens = (cls ? 1 : 0) + (dist ? 1 : 0);
    v->prefix = v->class_tokens + registers;
    if (v->prefix)
        v->prefix_rows = (fv_weight){.rows = v->prefix, .cols = c};
    if (cls)
        FV_TRY(fv_take_part(&v->prefix_rows, &r->t, r->prefix, n->cls, "",
                            (fv_weight_part){.rows = 1, .cols = c}));
    if (dist)
        FV_TRY(fv_take_part(&v->prefix_rows, &r->t, r->prefix, n->dist, "",
                            (fv_weight_part){.row0 = 1, .rows = 1, .cols = c}));
    if (registers)
        FV_TRY(
            fv_take_part(&v->prefix_rows, &r->t, r->prefix, n->reg, "",
                         (fv_weight_part){.row0 = v->class_tokens, .rows = registers, .cols = c}));
    return FOVEA_OK;
}

static fovea_status read_embedding(struct reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *t;
    const uint64_t conv[4] = {v->width, 3, v->patch, v->patch};
    const uint64_t linear[2] = {v->width, 3ull * v->patch * v->patch};
    bool flat = fv_take_look(&r->t, r->prefix, r->n->patch, "weight")->rank == 2;
    FV_TRY(fv_take_tensor(&t, &r->t, r->prefix, r->n->patch, "weight", flat ? 2 : 4,
                          flat ? linear : conv));
    v->embed_w = fv_weight_of(t, v->width, 3 * v->patch * v->patch);
    bool biased = r->n->origin == FV_VIT_HF
                      ? r->kind != FV_VIT_CLIP
                      : fv_take_look(&r->t, r->prefix, r->n->patch, "bias") != NULL;
    if (biased)
        FV_TRY(fv_take(&v->embed_b, &r->t, r->prefix, r->n->patch, "bias", 1, v->width));
    FV_TRY(read_prefix(r));
    FV_TRY(read_positions(r));
    FV_TRY(read_position_rule(r));
    bool pre = r->n->origin == FV_VIT_TIMM
                   ? fv_take_look(&r->t, r->prefix, r->n->pre, "weight") != NULL
                   : r->kind == FV_VIT_CLIP;
    return pre && r->n->pre
               ? fv_take_norm(&v->pre_w, &v->pre_b, &r->t, r->prefix, r->n->pre, r->v->width)
               : FOVEA_OK;
}

/* ---- blocks ---- */

/* Rows q, k, v of one tensor, cut into q and the k and v that follow each other anyway. */
static fovea_status cut_qkv(struct reader *r, fv_weight *q, fv_weight *kv, const char *prefix,
                            const char *stem, bool bias)
{
    const uint32_t c = r->v->width, cols = bias ? 1 : c;
    const fv_tensor *t;
    const uint64_t shape[2] = {3ull * c, cols};
    FV_TRY(fv_take_tensor(&t, &r->t, prefix, stem, bias ? "bias" : "weight", 2, shape));
    *q = (fv_weight){.rows = bias ? 1 : c, .cols = c};
    *kv = (fv_weight){.rows = bias ? 1 : 2 * c, .cols = bias ? 2 * c : c};
    fv_weight_add(q, (fv_weight_part){.tensor = t, .rows = q->rows, .cols = q->cols});
    fv_weight_add(
        kv, (fv_weight_part){
                .tensor = t, .offset = (uint64_t)c * cols, .rows = kv->rows, .cols = kv->cols});
    return FOVEA_OK;
}

/* Separate k and v stacked. */
static fovea_status join_kv(struct reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width;
    const fv_vit_names *n = r->n;
    b->kv_w = (fv_weight){.rows = 2 * c, .cols = c};
    FV_TRY(fv_take_part(&b->kv_w, &r->t, r->block, n->k, "weight",
                        (fv_weight_part){.rows = c, .cols = c}));
    FV_TRY(fv_take_part(&b->kv_w, &r->t, r->block, n->v, "weight",
                        (fv_weight_part){.row0 = c, .rows = c, .cols = c}));
    if (!r->bias)
        return FOVEA_OK;
    b->kv_b = (fv_weight){.rows = 1, .cols = 2 * c};
    FV_TRY(fv_take_part(&b->kv_b, &r->t, r->block, n->k, "bias",
                        (fv_weight_part){.rows = 1, .cols = c}));
    return fv_take_part(&b->kv_b, &r->t, r->block, n->v, "bias",
                        (fv_weight_part){.rows = 1, .col0 = c, .cols = c});
}

static fovea_status read_sla(struct reader *r, fv_weight *w, const char *stem)
{
    const uint32_t c = r->v->width, heads = r->v->heads, d = c / heads;
    const uint64_t shape[2] = {r->sla == SLA_Q_BLOCKDIAG ? d : c, heads};
    const fv_tensor *t;
    FV_TRY(fv_take_tensor(&t, &r->t, r->block, stem, "weight", 2, shape));
    *w = (fv_weight){.rows = heads, .cols = c};
    if (r->sla != SLA_Q_BLOCKDIAG) {
        fv_weight_add(
            w, (fv_weight_part){
                   .tensor = t, .rows = heads, .cols = c, .row_stride = 1, .col_stride = heads});
        return FOVEA_OK;
    }
    /* Zeros but for the channels of each row's own head. */
    float *wide;
    const fv_tensor *spread;
    FV_TRY(fv_model_floats(&wide, &spread, r->t.m, heads, c));
    for (uint32_t i = 0; i < c; i++)
        fv_tensor_read(t, (uint64_t)(i % d) * heads + i / d, 1, wide + (size_t)i / d * c + i);
    *w = fv_weight_of(spread, heads, c);
    return FOVEA_OK;
}

/* What the student's attention learns beside: it begins at zero, where it does nothing. */
static fovea_status put_learned(struct reader *r, uint32_t i)
{
    const uint64_t c = r->v->width, gates[2] = {c, r->v->heads};
    fv_attention_name *name;
    FV_TRY(fv_attention_blocks(&name, r->t.m->additions->attention, r->v->depth));
    const uint32_t params = fv_mech_table[name[i].mech]->params;
    const uint64_t vectors[2] = {params, c};
    fovea_status status = FOVEA_OK;
    if (name[i].gated && !fv_take_look(&r->t, r->block, SLA_Q, "weight")) {
        status = fv_take_put(&r->t, r->block, SLA_Q, "weight", 2, gates, 0);
        if (status == FOVEA_OK)
            status = fv_take_put(&r->t, r->block, SLA_K, "weight", 2, gates, 0);
        r->sla = SLA_Q_DENSE;
        json_t *own = json_object_get(r->config->object, "fovea");
        if (!own) {
            own = json_object();
            json_object_set_new(r->config->object, "fovea", own);
        }
        json_object_set_new(own, "sla_gates", json_string("q_dense"));
    }
    if (params && status == FOVEA_OK &&
        fv_take_dimension(fv_take_look(&r->t, r->block, VECTORS, ""), 0) != params)
        status = fv_take_put(&r->t, r->block, VECTORS, "", 2, vectors, 0);
    fv_mem_free(name);
    return status;
}

/* As many as the feature map of the checkpoint's own attention has. */
static fovea_status read_vectors(struct reader *r, fv_vit_block *b)
{
    const fv_tensor *t = fv_take_look(&r->t, r->block, VECTORS, "");
    const uint32_t n = fv_take_dimension(t, 0);
    if (!t)
        return FOVEA_OK;
    FV_TRY(check_size(r, "number of learned vectors", n, LEARNED));
    return fv_take(&b->vectors, &r->t, r->block, VECTORS, "", n, r->v->width);
}

static fovea_status read_attention(struct reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width;
    const fv_vit_names *n = r->n;
    FV_TRY(fv_take_norm(&b->ln1_w, &b->ln1_b, &r->t, r->block, n->ln1, r->v->width));
    if (n->qkv) {
        FV_TRY(cut_qkv(r, &b->q_w, &b->kv_w, r->block, n->qkv, false));
        if (r->bias)
            FV_TRY(cut_qkv(r, &b->q_b, &b->kv_b, r->block, n->qkv, true));
    } else {
        FV_TRY(fv_take(&b->q_w, &r->t, r->block, n->q, "weight", c, c));
        if (r->bias)
            FV_TRY(fv_take(&b->q_b, &r->t, r->block, n->q, "bias", 1, c));
        FV_TRY(join_kv(r, b));
    }
    FV_TRY(fv_take_linear(&b->proj_w, &b->proj_b, &r->t, r->block, n->proj, c, c));
    if (fv_take_look(&r->t, r->block, SLA_Q, "weight") ||
        fv_take_look(&r->t, r->block, SLA_K, "weight")) {
        FV_TRY(read_sla(r, &b->sla_q, SLA_Q));
        FV_TRY(read_sla(r, &b->sla_k, SLA_K));
    }
    FV_TRY(read_vectors(r, b));
    return r->scaled ? fv_take(&b->ls1, &r->t, r->block, n->ls1, "", 1, c) : FOVEA_OK;
}

static fovea_status read_mlp(struct reader *r, fv_vit_block *b)
{
    const fv_vit_names *n = r->n;
    const fv_vit *v = r->v;
    uint32_t rows = v->epi == FV_EPI_SWIGLU ? 2 * v->hidden : v->hidden;
    FV_TRY(fv_take_norm(&b->ln2_w, &b->ln2_b, &r->t, r->block, n->ln2, r->v->width));
    FV_TRY(fv_take_linear(&b->fc1_w, &b->fc1_b, &r->t, r->block, r->gated ? n->gated1 : n->fc1,
                          rows, v->width));
    FV_TRY(fv_take_linear(&b->fc2_w, &b->fc2_b, &r->t, r->block, r->gated ? n->gated2 : n->fc2,
                          v->width, v->hidden));
    return r->scaled ? fv_take(&b->ls2, &r->t, r->block, n->ls2, "", 1, v->width) : FOVEA_OK;
}

static fovea_status read_blocks(struct reader *r)
{
    fv_vit *v = r->v;
    FV_TRY(fv_mem_array((void **)&v->block, v->depth, sizeof *v->block, FV_MEM_MODEL, "blocks"));
    r->chunk = 0;
    for (uint32_t i = 0; i < v->depth; i++) {
        if (!find_block(r, i))
            return fv_take_missing(&r->t, r->block, "of a block");
        if (r->t.m->additions && r->t.m->additions->attention)
            FV_TRY(put_learned(r, i));
        FV_TRY(read_attention(r, &v->block[i]));
        FV_TRY(read_mlp(r, &v->block[i]));
        if (i == 0) /* a weight without a role would silently make it another model */
            FV_TRY(fv_take_all_used(&r->t, r->block));
    }
    return FOVEA_OK;
}

/* ---- pooling and heads ---- */

static fovea_status read_map(struct reader *r)
{
    const fv_vit_names *n = r->n;
    const uint32_t c = r->v->width;
    const char *p = r->prefix;
    fv_vit *v = r->v;
    v->pool = FV_POOL_MAP;
    v->map.heads = v->heads;
    v->map.epi = v->epi;
    v->map.hidden = fv_take_dimension(fv_take_look(&r->t, p, n->map_fc1, "weight"), 0);
    FV_TRY(check_size(r, "width of the pooling MLP", v->map.hidden, HIDDEN));
    FV_TRY(fv_take(&v->map.probe, &r->t, p, n->probe, "", 1, c));
    if (n->map_qkv) {
        FV_TRY(cut_qkv(r, &v->map.q_w, &v->map.kv_w, p, n->map_qkv, false));
        FV_TRY(cut_qkv(r, &v->map.q_b, &v->map.kv_b, p, n->map_qkv, true));
    } else {
        FV_TRY(fv_take_linear(&v->map.q_w, &v->map.q_b, &r->t, p, n->map_q, c, c));
        FV_TRY(fv_take_linear(&v->map.kv_w, &v->map.kv_b, &r->t, p, n->map_kv, 2 * c, c));
    }
    FV_TRY(fv_take_linear(&v->map.out_w, &v->map.out_b, &r->t, p, n->map_proj, c, c));
    FV_TRY(fv_take_norm(&v->map.ln_w, &v->map.ln_b, &r->t, p, n->map_ln, r->v->width));
    FV_TRY(fv_take_linear(&v->map.fc1_w, &v->map.fc1_b, &r->t, p, n->map_fc1, v->map.hidden, c));
    return fv_take_linear(&v->map.fc2_w, &v->map.fc2_b, &r->t, p, n->map_fc2, c, v->map.hidden);
}

static fovea_status read_pool(struct reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    if (r->n->origin == FV_VIT_TIMM && fv_take_look(&r->t, r->prefix, "fc_norm.", "weight"))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"fc_norm\", a norm after average pooling, is not supported",
                       r->t.source->name);
    FV_TRY(fv_take_norm(&v->post_w, &v->post_b, &r->t, r->prefix, n->post, r->v->width));
    v->post_on_pooled = r->kind == FV_VIT_CLIP && n->origin != FV_VIT_TIMM;
    if (fv_take_look(&r->t, r->prefix, n->probe, ""))
        return read_map(r);
    if (fv_take_look(&r->t, r->prefix, n->pooler, "weight")) {
        v->pool = FV_POOL_CLS_TANH;
        return fv_take_linear(&v->pool_w, &v->pool_b, &r->t, r->prefix, n->pooler, v->width,
                              v->width);
    }
    bool tanh_only = n->origin == FV_VIT_HF && (r->kind == FV_VIT_PLAIN || r->kind == FV_VIT_DEIT);
    v->pool = v->class_tokens && !tanh_only ? FV_POOL_CLS : FV_POOL_NONE;
    return FOVEA_OK;
}

/* Two heads of which the mean is wanted: their halves side by side, their biases added. */
static fovea_status read_head_pair(struct reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    const uint32_t c = v->width,
                   classes = fv_take_dimension(fv_take_look(&r->t, "", n->head_cls, "weight"), 0);
    FV_TRY(check_size(r, "number of classes", classes, CLASSES));
    v->head = FV_HEAD_CLS_DIST;
    v->head_w = (fv_weight){.rows = classes, .cols = 2 * c};
    v->head_b = (fv_weight){.rows = 1, .cols = classes};
    FV_TRY(fv_take_part(&v->head_w, &r->t, "", n->head_cls, "weight",
                        (fv_weight_part){.rows = classes, .cols = c, .factor = 0.5f}));
    FV_TRY(fv_take_part(&v->head_w, &r->t, "", n->head_dist, "weight",
                        (fv_weight_part){.rows = classes, .col0 = c, .cols = c, .factor = 0.5f}));
    FV_TRY(fv_take_part(&v->head_b, &r->t, "", n->head_cls, "bias",
                        (fv_weight_part){.rows = 1, .cols = classes, .factor = 0.5f}));
    return fv_take_part(&v->head_b, &r->t, "", n->head_dist, "bias",
                        (fv_weight_part){.rows = 1, .cols = classes, .factor = 0.5f, .sum = true});
}

static enum fv_vit_head head_form(const struct reader *r)
{
    const fv_vit *v = r->v;
    switch (r->n->origin) {
    case FV_VIT_HF:
        return r->kind == FV_VIT_CLIP || r->kind == FV_VIT_SIGLIP  ? FV_HEAD_MEAN
               : r->kind == FV_VIT_PLAIN || r->kind == FV_VIT_DEIT ? FV_HEAD_CLS
                                                                   : FV_HEAD_CLS_MEAN;
    case FV_VIT_DINO:
        return FV_HEAD_CLS_MEAN;
    case FV_VIT_TIMM:
    case FV_VIT_OPENAI:
        break;
    }
    return v->pool == FV_POOL_MAP ? FV_HEAD_POOL : v->class_tokens ? FV_HEAD_CLS : FV_HEAD_MEAN;
}

static fovea_status put_head(struct reader *r, uint32_t classes)
{
    const bool both = r->v->head == FV_HEAD_CLS_MEAN;
    const uint64_t shape[2] = {classes, (uint64_t)r->v->width * (both ? 2 : 1)};
    if (!r->n->head || (r->v->head == FV_HEAD_POOL && r->v->pool == FV_POOL_NONE))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: checkpoints named like this one have no classification head",
                       r->t.source->name);
    r->t.m->new_head = true;
    FV_TRY(fv_take_put(&r->t, "", r->n->head, "weight", 2, shape, FV_NEW_HEAD));
    return fv_take_put(&r->t, "", r->n->head, "bias", 1, shape, 0);
}

static fovea_status read_head(struct reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    if (n->head_dist && v->class_tokens == 2 && fv_take_look(&r->t, "", n->head_dist, "weight"))
        return read_head_pair(r);
    const uint32_t wanted = r->t.m->additions ? r->t.m->additions->classes : 0;
    const fv_tensor *t = n->head ? fv_take_look(&r->t, "", n->head, "weight") : NULL;
    if (!t && !wanted)
        return FOVEA_OK;
    v->head = head_form(r);
    const char *pool = "";
    if (n->origin == FV_VIT_TIMM)
        FV_TRY(fv_config_text(&pool, r->config, "global_pool"));
    if (strcmp(pool, "avg") == 0)
        v->head = FV_HEAD_MEAN;
    if (wanted && fv_take_dimension(t, 0) != wanted)
        FV_TRY(put_head(r, wanted));
    t = fv_take_look(&r->t, "", n->head, "weight");
    const uint32_t classes = fv_take_dimension(t, 0);
    FV_TRY(check_size(r, "number of classes", classes, CLASSES));
    FV_TRY(fv_take(&v->head_w, &r->t, "", n->head, "weight", classes,
                   v->head == FV_HEAD_CLS_MEAN ? 2 * v->width : v->width));
    return fv_take_look(&r->t, "", n->head, "bias")
               ? fv_take(&v->head_b, &r->t, "", n->head, "bias", 1, classes)
               : FOVEA_OK;
}

/* image_embeds: a projection without bias, (out, C), or (C, out) in OpenAI's files. */
static fovea_status read_embeds(struct reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *t = fv_take_look(&r->t, "", r->n->embeds, "");
    if (t) {
        FV_TRY(check_size(r, "width of the projection", fv_take_dimension(t, 0), WIDTH));
        return fv_take(&v->embeds_w, &r->t, "", r->n->embeds, "", fv_take_dimension(t, 0),
                       v->width);
    }
    t = fv_take_look(&r->t, r->prefix, r->n->embeds_transposed, "");
    if (!t)
        return FOVEA_OK;
    const uint32_t out = fv_take_dimension(t, 1);
    const uint64_t shape[2] = {v->width, out};
    FV_TRY(check_size(r, "width of the projection", out, WIDTH));
    FV_TRY(fv_take_tensor(&t, &r->t, r->prefix, r->n->embeds_transposed, "", 2, shape));
    v->embeds_w = (fv_weight){.rows = out, .cols = v->width};
    fv_weight_add(
        &v->embeds_w,
        (fv_weight_part){
            .tensor = t, .rows = out, .cols = v->width, .row_stride = 1, .col_stride = out});
    return FOVEA_OK;
}

/* ---- the model ---- */

static fovea_status list_outputs(fovea_model *m)
{
    const fv_vit *v = m->roles;
    uint32_t n = 0;
    FV_TRY(fv_mem_array((void **)&m->outputs, 3 * v->depth + 6, sizeof *m->outputs, FV_MEM_MODEL,
                        "list of outputs"));
    if (v->head != FV_HEAD_NONE)
        FV_TRY(fv_mem_text(&m->outputs[n++], "logits", FV_MEM_MODEL));
    FV_TRY(fv_mem_text(&m->outputs[n++], "last_hidden_state", FV_MEM_MODEL));
    if (v->pool != FV_POOL_NONE)
        FV_TRY(fv_mem_text(&m->outputs[n++], "pooler_output", FV_MEM_MODEL));
    if (fv_weight_present(&v->embeds_w))
        FV_TRY(fv_mem_text(&m->outputs[n++], "image_embeds", FV_MEM_MODEL));
    for (uint32_t i = 0; i <= v->depth; i++) {
        char text[24];
        snprintf(text, sizeof text, "hidden%u", i);
        FV_TRY(fv_mem_text(&m->outputs[n++], text, FV_MEM_MODEL));
    }
    for (uint32_t i = 0; i < 2 * v->depth; i++) {
        char text[24];
        snprintf(text, sizeof text, "block%u.%c", i / 2, i % 2 ? 'k' : 'q');
        FV_TRY(fv_mem_text(&m->outputs[n++], text, FV_MEM_MODEL));
    }
    return FOVEA_OK;
}

static fovea_status describe(struct reader *r)
{
    const fv_vit *v = r->v;
    fovea_model_info *info = &r->t.m->info;
    info->width = v->width;
    info->depth = v->depth;
    info->heads = v->heads;
    info->patch = v->patch;
    info->prefix = v->prefix;
    info->classes = v->head_w.rows;
    fovea_preprocess *p = &info->preprocess;
    *p = fv_processor_default(kinds[r->kind].processor, info->native_width, info->native_height);
    if (r->n->origin != FV_VIT_TIMM)
        return FOVEA_OK;
    fovea_preprocess family = *p;
    *p = fv_processor_default(FV_PROCESSOR_TIMM, info->native_width, info->native_height);
    if (r->kind != FV_VIT_DEIT) {
        memcpy(p->mean, family.mean, sizeof p->mean);
        memcpy(p->std, family.std, sizeof p->std);
    }
    return fv_processor_read_timm(p, r->config);
}

fovea_status fv_vit_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    struct reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    FV_TRY(fv_config_type(&r.type, config));
    bool known = find_kind(&r.kind, r.type);
    assert(known);
    (void)known;
    bool fits = strlen(r.type) < sizeof m->info.type;
    snprintf(m->info.type, sizeof m->info.type, "%s", fits ? r.type : kinds[r.kind].name);
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_config_section(&r.vision, config, "vision_config"));
    if (!r.vision.object)
        r.vision = *config;
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_vit), FV_MEM_MODEL, "roles"));
    r.v = m->roles;
    FV_TRY(find_scheme(&r));
    FV_TRY(read_sizes(&r));
    FV_TRY(read_block_form(&r));
    FV_TRY(read_embedding(&r));
    FV_TRY(read_blocks(&r));
    FV_TRY(read_pool(&r));
    FV_TRY(read_head(&r));
    FV_TRY(read_embeds(&r));
    FV_TRY(describe(&r));
    FV_TRY(fv_segmentation_read(m, source, config->file, &r.v->width, 1));
    return list_outputs(m);
}

void fv_vit_release(fovea_model *m)
{
    fv_vit *v = m->roles;
    if (v)
        fv_mem_free(v->block);
    fv_mem_free(v);
    m->roles = NULL;
}
