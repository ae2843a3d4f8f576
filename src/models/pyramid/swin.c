/* swin.c: reads Swin: softmax attention in windows with biases of relative positions; four tokens
 * are merged into one between stages.
 *
 * Sizes are read from the tensors; config.json must agree. The reference code defines pictures of
 * every size only for backbones. Here, all models follow its rules:
 *
 *   patches  The picture is padded with zeros at the right and bottom to whole patches.
 *   windows  They keep their size, so that their tables apply unchanged. The normalised grid is
 *            padded in the same way to whole windows, then shifted. The zeros are keys like others.
 *   shift    Odd blocks shift. Outside of backbones, they do so only if both sides of the grid are
 *            larger than the window. With timm's names, each side is shifted if it is larger, and
 *            the grid is padded after the shift, as in timm.
 *   merging  An odd grid is padded before the norm.
 *   position_embeddings  They are resized bicubically (not antialiased). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "models/fields.h"
#include "models/model.h"
#include "models/pyramid/swin.h"
#include "models/windows.h"

#define WIDTH 65536
#define HIDDEN (1u << 20)
#define DEPTH 1024
#define PATCH 1024
#define WINDOW 64           /* most tokens along the side of a window */
#define BIASES (2ull << 30) /* most bytes of a plan's biases */

/* Fields of its configuration, in addition to those of every transformers configuration. */
static const char fields[] =
    "auxiliary_head bbox_head decode_head depths embed_dim encoder_stride frozen_stages neck "
    "num_classes num_heads num_layers path_norm=true test_cfg train_cfg use_absolute_embeddings "
    "window_size";

/* ---- names of tensors ---- */

/* Names are stems, such as "norm1."; `table` and `positions` are whole names. */
struct names {
    const char *prefix[3]; /* prefixes of all names but the head's; ended by NULL */
    const char *patch, *patch_norm, *positions;
    const char *block;             /* the blocks of a stage: a format with its number */
    const char *merging;           /* a format with the number of the stage before it */
    bool begins;                   /* or of the stage after it, unless stage 0 has one */
    const char *norm, *stage_norm; /* stage_norm: a format with a number */
    uint32_t first;                /* that number for the first stage */
    const char *head[2];           /* either; the second may be NULL */
    /* in a block */
    const char *before, *qkv[3], *table, *proj, *after, *fc1, *fc2; /* qkv: all in one, or three */
};

#define TRANSFORMERS                                                                               \
    .prefix = {"swin.", ""}, .patch = "embeddings.patch_embeddings.projection.",                   \
    .patch_norm = "embeddings.norm.", .positions = "embeddings.position_embeddings",               \
    .block = "encoder.layers.%u.blocks.", .merging = "encoder.layers.%u.downsample.",              \
    .norm = "layernorm.", .stage_norm = "hidden_states_norms.stage%u.", .first = 1,                \
    .head = {"classifier."}, .before = "layernorm_before.", .after = "layernorm_after."

static const struct names layouts[] = {
    {TRANSFORMERS, .qkv = {"attention.self.query.", "attention.self.key.", "attention.self.value."},
     .table = "attention.self.relative_position_bias_table", .proj = "attention.output.dense.",
     .fc1 = "intermediate.dense.", .fc2 = "output.dense."},
    /* its modules since transformers 5, whose state_dict was saved without renaming */
    {TRANSFORMERS, .qkv = {"attention.q_proj.", "attention.k_proj.", "attention.v_proj."},
     .table = "attention.relative_position_bias.relative_position_bias_table",
     .proj = "attention.o_proj.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."},
    /* timm, and the original code, which merges at the end of a stage */
    {.prefix = {""},
     .patch = "patch_embed.proj.",
     .patch_norm = "patch_embed.norm.",
     .positions = "absolute_pos_embed",
     .block = "layers.%u.blocks.",
     .merging = "layers.%u.downsample.",
     .begins = true,
     .norm = "norm.",
     .stage_norm = "norm%u.",
     .head = {"head.fc.", "head."},
     .before = "norm1.",
     .qkv = {"attn.qkv."},
     .table = "attn.relative_position_bias_table",
     .proj = "attn.proj.",
     .after = "norm2.",
     .fc1 = "mlp.fc1.",
     .fc2 = "mlp.fc2."},
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

typedef struct reader {
    fv_pola_reader r;
    const struct names *n;
    uint64_t biases;  /* bytes of the biases of all pairs of tokens in a window, of all blocks */
    bool merges_late; /* at the begin of a stage, as timm does, not at the end of the one before */
} reader;

/* A name with a number in it. */
typedef struct name {
    char text[64];
} name;

static name numbered(const char *format, uint32_t i)
{
    name out;
    snprintf(out.text, sizeof out.text, format, i);
    return out;
}

/* Finds the layout whose first block the checkpoint has, and its prefix. */
static fovea_status find_layout(reader *r)
{
    fv_tensor_reader *t = &r->r.t;
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct names *n = &layouts[i];
        for (const char *const *prefix = n->prefix; *prefix; prefix++) {
            char whole[64], stem[128];
            snprintf(whole, sizeof whole, "%s%s", r->r.prefix, *prefix);
            snprintf(stem, sizeof stem, "%s0.%s", numbered(n->block, 0).text, n->qkv[0]);
            if (!fv_reader_unwrap(t, whole, stem, "weight"))
                continue;
            r->n = n;
            FV_TRY(fv_reader_enter(t, r->r.prefix));
            r->r.outer = *t;
            FV_TRY(fv_reader_enter(t, *prefix));
            r->merges_late = n->begins && !fv_reader_find(t, numbered(n->merging, 0).text,
                                                          "reduction.", "weight");
            return FOVEA_OK;
        }
    }
    return fv_reader_fail_names(t, "a Swin",
                                "swin.encoder.layers.0.blocks.0.attention.self.query.weight");
}

/* ---- sizes ---- */

static fovea_status read_picture(reader *r)
{
    fovea_model_info *info = &r->r.t.m->info;
    const fv_config *config = &r->r.config;
    fv_config timm, arguments;
    uint32_t size[3] = {3, 224, 224};
    bool square;
    FV_TRY(fv_config_section(&timm, config, "pretrained_cfg"));
    FV_TRY(fv_config_section(&arguments, config, "model_args"));
    if (timm.object && fv_config_get(&timm, "input_size"))
        FV_TRY(fv_config_u32s(size, 3, &timm, "input_size", 1, PATCH * PATCH));
    info->native_height = size[1];
    info->native_width = size[2];
    FV_TRY(
        fv_config_size(&info->native_width, &info->native_height, &square, config, "image_size"));
    FV_TRY(
        fv_config_size(&info->native_width, &info->native_height, &square, &arguments, "img_size"));
    return FOVEA_OK;
}

/* Reads how many stages there are, and their depths. */
static fovea_status read_depths(reader *r)
{
    const fv_config *config = &r->r.config;
    fv_tensor_reader *t = &r->r.t;
    fv_pola *p = r->r.p;
    uint32_t told[FV_POLA_STAGES], n = 0;
    char first[96];
    snprintf(first, sizeof first, "%s0.%s", r->n->block, r->n->before);
    p->stages = fv_reader_count(t, "", first, FV_POLA_STAGES);
    FV_TRY(fv_reader_check_size(t, "number of stages", p->stages, FV_POLA_STAGES));
    snprintf(first, sizeof first, "%%u.%s", r->n->before);
    for (uint32_t i = 0; i < p->stages; i++) {
        p->stage[i].depth = fv_reader_count(t, numbered(r->n->block, i).text, first, DEPTH);
        FV_TRY(fv_reader_check_size(t, "depth of a stage", p->stage[i].depth, DEPTH));
    }
    if (!fv_config_get(config, "depths"))
        return FOVEA_OK;
    FV_TRY(fv_config_count(&n, config, "depths", FV_POLA_STAGES));
    FV_TRY(fv_config_u32s(told, n, config, "depths", 1, DEPTH));
    bool same = n == p->stages;
    for (uint32_t i = 0; i < n && same; i++)
        same = told[i] == p->stage[i].depth;
    return same ? FOVEA_OK
                : fv_config_fail(config, "depths", "the numbers of blocks that the tensors have");
}

/* Reads the widths, heads and MLPs of the stages. */
static fovea_status read_widths(reader *r)
{
    const fv_config *config = &r->r.config;
    const fv_tensor_reader *t = &r->r.t;
    fv_pola *p = r->r.p;
    uint32_t width, told[FV_POLA_STAGES];
    FV_TRY(fv_reader_dimension(&width, t, "", r->n->patch, "weight", 0, "width",
                               WIDTH >> (p->stages - 1)));
    FV_TRY(fv_reader_agree(t, config, "embed_dim", width));
    for (uint32_t i = 0; i < p->stages; i++) {
        fv_pola_stage *s = &p->stage[i];
        const name block = numbered(r->n->block, i);
        char first[96];
        snprintf(first, sizeof first, "%s0.", block.text);
        s->width = width << i;
        FV_TRY(fv_reader_dimension(&s->heads, t, first, r->n->table, "", 1, "number of heads",
                                   UINT16_MAX));
        FV_TRY(fv_reader_dimension(&s->hidden, t, first, r->n->fc1, "weight", 0, "width of the MLP",
                                   HIDDEN));
        if (s->width % s->heads)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"%s%s%s\" has %u heads, which do not divide the %u channels of "
                           "stage %u",
                           t->source->name, t->root, first, r->n->table, s->heads, s->width, i + 1);
    }
    if (!fv_config_get(config, "num_heads"))
        return FOVEA_OK;
    FV_TRY(fv_config_u32s(told, p->stages, config, "num_heads", 1, UINT16_MAX));
    for (uint32_t i = 0; i < p->stages; i++)
        if (told[i] != p->stage[i].heads)
            return fv_config_fail(config, "num_heads",
                                  "the numbers of columns of the tables of relative positions");
    return FOVEA_OK;
}

static fovea_status read_sizes(reader *r)
{
    const fv_config *config = &r->r.config;
    fv_pola *p = r->r.p;
    uint32_t channels = 3, act;
    FV_TRY(read_picture(r));
    FV_TRY(fv_config_u32(&channels, config, "num_channels", 1, WIDTH));
    if (channels != 3)
        return fv_fail(FOVEA_ENOTSUP, "%s: \"num_channels\" is %u; only RGB models are supported",
                       config->file, channels);
    FV_TRY(fv_config_activation(&act, config, "hidden_act", "gelu"));
    if (act != FV_EPI_GELU)
        return fv_config_fail(config, "hidden_act", "\"gelu\", the only supported activation");
    p->block_eps = 1e-5f;
    FV_TRY(fv_config_float(&p->block_eps, config, "layer_norm_eps", 0, 1));
    FV_TRY(fv_reader_dimension(&p->patch, &r->r.t, "", r->n->patch, "weight", 2, "size of patches",
                               PATCH));
    FV_TRY(fv_reader_agree(&r->r.t, config, "patch_size", p->patch));
    FV_TRY(read_depths(r));
    return read_widths(r);
}

/* ---- tensors ---- */

/* Reads the positions of a square grid. */
static fovea_status read_positions(reader *r)
{
    fv_tensor_reader *t = &r->r.t;
    fv_pola_stage *s = &r->r.p->stage[0];
    const fv_tensor *found = fv_reader_find(t, "", r->n->positions, "");
    bool has = found != NULL;
    FV_TRY(fv_config_bool(&has, &r->r.config, "use_absolute_embeddings"));
    if (!has)
        return FOVEA_OK;
    const uint32_t n = fv_tensor_dimension(found, 1);
    const uint32_t side = (uint32_t)sqrt(n);
    if (found && side * side != n)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: \"%s%s\" has %u positions; only those of a square picture are supported",
            t->source->name, t->root, r->n->positions, n);
    s->native_width = s->native_height = side;
    return fv_reader_matrix(&s->positions, t, "", r->n->positions, "", n, s->width);
}

static fovea_status read_embedding(reader *r)
{
    fv_pola_stage *s = &r->r.p->stage[0];
    const uint32_t shape[3] = {s->width, 3, r->r.p->patch};
    FV_TRY(fv_pola_read_conv(&s->embed, &r->r, "", r->n->patch, shape, false));
    FV_TRY(fv_reader_norm(&s->embed_ln, &r->r.t, "", r->n->patch_norm, s->width));
    fv_reader_ignore(&r->r.t, "embeddings.", "mask_token"); /* used only in training */
    return read_positions(r);
}

/* Reads the norm and the matrix that merge four tokens of stage i - 1 into one of stage i. */
static fovea_status read_merging(reader *r, uint32_t i)
{
    fv_pola_stage *s = &r->r.p->stage[i];
    fv_tensor_reader *t = &r->r.t;
    const name prefix = numbered(r->n->merging, r->merges_late ? i : i - 1);
    FV_TRY(fv_reader_norm(&s->embed_ln, t, prefix.text, "norm.", 4 * s[-1].width));
    return fv_reader_matrix(&s->embed.w, t, prefix.text, "reduction.", "weight", s->width,
                            4 * s[-1].width);
}

static fovea_status read_qkv(reader *r, fv_layer *l, const char *p, uint32_t width)
{
    fv_tensor_reader *t = &r->r.t;
    const uint32_t parts = r->n->qkv[1] ? 3 : 1, rows = 3 * width / parts;
    bool biased = fv_reader_find(t, p, r->n->qkv[0], "bias") != NULL;
    FV_TRY(fv_config_bool(&biased, &r->r.config, "qkv_bias"));
    fv_pola_empty(l, 3, width, biased);
    for (uint32_t i = 0; i < parts; i++) {
        FV_TRY(fv_reader_part(&l->w, t, p, r->n->qkv[i], "weight",
                              (fv_weight_part){.row0 = i * rows, .rows = rows, .cols = width}));
        if (biased)
            FV_TRY(fv_reader_part(&l->b, t, p, r->n->qkv[i], "bias",
                                  (fv_weight_part){.rows = 1, .col0 = i * rows, .cols = rows}));
    }
    return FOVEA_OK;
}

/* Reads the table of biases of relative positions, whose number of rows is that of the offsets
 * between two tokens of a window. All windows of a stage have the same size. */
static fovea_status read_window(reader *r, const fv_pola_stage *s, fv_pola_block *b, const char *p)
{
    fv_tensor_reader *t = &r->r.t;
    uint32_t rows;
    FV_TRY(fv_reader_dimension(&rows, t, p, r->n->table, "", 0, "number of offsets",
                               (2 * WINDOW - 1) * (2 * WINDOW - 1)));
    for (b->window = 1; (2 * b->window - 1) * (2 * b->window - 1) < rows;)
        b->window++;
    const uint32_t offsets = 2 * b->window - 1;
    if (offsets * offsets != rows || b->window != s->block[0].window)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: \"%s%s%s\" has %u rows; only square windows, which have (2w - 1)^2 rows "
            "for w tokens along a side, and one size of windows in a stage are "
            "supported",
            t->source->name, t->root, p, r->n->table, rows);
    if (!r->n->begins)
        FV_TRY(fv_reader_agree(t, &r->r.config, "window_size", b->window));
    const uint64_t tokens = (uint64_t)b->window * b->window;
    r->biases += tokens * tokens * s->heads * sizeof(float);
    if (r->biases > BIASES)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: biases of relative positions need more than the %.1f GiB that are "
                       "supported: \"%s%s%s\" has %u heads and windows of %u x %u tokens",
                       t->source->name, (double)BIASES / (1 << 30), t->root, p, r->n->table,
                       s->heads, b->window, b->window);
    return fv_reader_matrix(&b->positions, t, p, r->n->table, "", rows, s->heads);
}

static fovea_status read_block(reader *r, uint32_t i, uint32_t j)
{
    const fv_pola_stage *s = &r->r.p->stage[i];
    fv_tensor_reader *t = &r->r.t;
    fv_pola_block *b = &s->block[j];
    const uint32_t c = s->width;
    char p[80];
    snprintf(p, sizeof p, "%s%u.", numbered(r->n->block, i).text, j);
    b->reduction = 1;
    FV_TRY(read_window(r, s, b, p));
    b->shift = j % 2 ? b->window / 2 : 0;
    FV_TRY(fv_reader_norm(&b->ln1, t, p, r->n->before, c));
    FV_TRY(read_qkv(r, &b->qkv, p, c));
    FV_TRY(fv_reader_linear(&b->proj, t, p, r->n->proj, c, c));
    FV_TRY(fv_reader_norm(&b->ln2, t, p, r->n->after, c));
    FV_TRY(fv_reader_linear(&b->fc1, t, p, r->n->fc1, s->hidden, c));
    fv_reader_ignore(t, p, "attn_mask"); /* computed here */
    return fv_reader_linear(&b->fc2, t, p, r->n->fc2, c, s->hidden);
}

/* Reads the last norm. Backbones have a norm after every stage that is output instead, and may have
 * an unused last norm, which transformers saves with a prefix that the others do not have. */
static fovea_status read_norms(reader *r)
{
    fv_tensor_reader *t = &r->r.t;
    fv_pola *p = r->r.p;
    for (uint32_t i = 0; i < p->stages; i++) {
        const name stem = numbered(r->n->stage_norm, i + r->n->first);
        if (!fv_reader_find(&r->r.outer, "", stem.text, "weight"))
            continue;
        FV_TRY(fv_reader_norm(&p->stage[i].norm, &r->r.outer, "", stem.text, p->stage[i].width));
        p->always_shift = true;
    }
    if (!p->always_shift)
        return fv_reader_norm(&p->norm, t, "", r->n->norm, p->stage[p->stages - 1].width);
    for (const char *const *prefix = r->n->prefix; *prefix; prefix++)
        fv_reader_ignore(&r->r.outer, *prefix, r->n->norm);
    return FOVEA_OK;
}

static fovea_status read_roles(reader *r)
{
    fv_pola *p = r->r.p;
    FV_TRY(find_layout(r));
    FV_TRY(read_sizes(r));
    FV_TRY(read_embedding(r));
    for (uint32_t i = 0; i < p->stages; i++) {
        fv_pola_stage *s = &p->stage[i];
        if (i > 0)
            FV_TRY(read_merging(r, i));
        FV_TRY(FV_MEM_ARRAY(&s->block, s->depth, FV_MEM_MODEL, "blocks"));
        for (uint32_t j = 0; j < s->depth; j++)
            FV_TRY(read_block(r, i, j));
    }
    FV_TRY(read_norms(r));
    for (size_t k = 0; k < 2 && r->n->head[k]; k++)
        if (k == 0 || fv_reader_find(&r->r.outer, "", r->n->head[k], "weight"))
            r->r.head = r->n->head[k];
    return fv_pola_finish(&r->r);
}

/* Checks that the stages that a head of transformers reads are normalised. */
static fovea_status check_norms(const reader *r)
{
    const fv_decoder *d = r->r.t.m->decoder;
    for (uint32_t i = 0; *r->r.prefix && i < d->stages; i++) {
        char missing[80];
        if (fv_weight_present(&r->r.p->stage[d->stage[i]].norm.w))
            continue;
        snprintf(missing, sizeof missing, "%sweight",
                 numbered(r->n->stage_norm, d->stage[i] + r->n->first).text);
        return fv_reader_missing(&r->r.outer, missing, "of the norm of a stage");
    }
    return FOVEA_OK;
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    reader r = {0};
    fv_config own;
    FV_TRY(fv_pola_begin(&r.r, m, source, config));
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_fields_check(config, &r.r.config, &own, fields));
    FV_TRY(read_roles(&r));
    FV_TRY(check_norms(&r));
    fv_pola *p = r.r.p;
    p->always_shift |= m->decoder != NULL;
    p->of_timm = r.merges_late && !p->always_shift;
    return fv_swin_list_outputs(&r.r);
}

/* ---- computing ---- */

static fovea_status make_grid(const fovea_model *m, fv_emit_options *o)
{
    const fv_pola *p = m->roles;
    o->grid = (fv_grid){fv_windows_whole(o->width, p->patch) / p->patch,
                        fv_windows_whole(o->height, p->patch) / p->patch, p->patch, 0};
    return fv_swin_check_grids(m, o);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    for (uint32_t i = 0; i < b->options->blocks; i++) {
        const fv_attention_name *attention = fv_block_attention(b, i);
        char text[64];
        if (attention->kind != FV_ATTENTION_SOFTMAX)
            return fv_fail(FOVEA_ENOTSUP,
                           "attention %s cannot be used in a Swin, which attends only in small "
                           "windows and adds biases to the scores of softmax; use softmax",
                           fv_attention_text(attention, text));
    }
    return fv_swin_emit(m, b);
}

/* Returns whether timm has a Swin of that name. */
static bool owns(const char *type)
{
    return fv_begins_with(type, "swin_");
}

FV_DEFINE_FAMILY(
    swin, .name = "swin", .types = "swin", .owns = owns,
    .sign = "embeddings.patch_embeddings.projection.",
    .second_sign = "encoder.layers.0.blocks.0.attention.self.relative_position_bias_table",
    .attention = "softmax", .read = read_model, .grid = make_grid, .emit = emit,
    .weights = fv_pola_weights, .release = fv_pola_release, .synthetic = &fv_swin_synthetics,
    .decodes = true)
