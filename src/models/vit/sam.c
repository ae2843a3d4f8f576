/* sam.c: SAM and its encoder, as in transformers, timm or its authors' code.
 *
 *     x = embed(patches) + positions
 *     x = x + proj attention(LN1 x);  x = x + mlp(LN2 x)      per block
 *     y = LN conv3x3(LN conv1x1 x)
 *
 * Attention is in windows in most blocks and over all tokens in a few. A relative position term,
 * q_i . R_h[y_i - y_j] + q_i . R_w[x_i - x_j], is added to the score of query i and key j.
 *
 * At a size other than the trained one, the position table is resized as timm does (bicubic,
 * antialiased). R_h and R_w of blocks over all tokens are resized linearly, as in the official
 * code. Windows keep their size; those at the right and bottom are padded. If another attention
 * than softmax is chosen, it replaces the attention over all tokens, without relative positions.
 * Windows keep softmax. */
#include "models/vit/sam.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/config.h"
#include "checkpoint/processor.h"
#include "graph/emit.h"
#include "models/fields.h"
#include "models/layer.h"
#include "models/segmentation.h"
#include "models/tensor_reader.h"
#include "models/windows.h"
#include "ops/mech_traits.h"

#define WIDTH 65536
#define HIDDEN (1u << 20)
#define DEPTH 4096
#define NECK_EPS 1e-6f

/* ---- reading ---- */

/* The names of tensors by their origin: stems as in vit.h. */
#define HF                                                                                         \
    "patch_embed.projection.", "layers.%u.", "layer_norm1.", "layer_norm2.", "mlp.lin1.",          \
        "mlp.lin2.", "neck.conv1.", "neck.layer_norm1.", "neck.conv2.", "neck.layer_norm2.", 1e-6f
static const struct names {
    const char *prefix, *patch, *block; /* block: prefix of a block, with its number */
    const char *ln1, *ln2, *fc1, *fc2;
    const char *neck, *neck_norm, *neck_conv, *neck_conv_norm;
    float eps; /* epsilon of the blocks' norms, if config.json does not specify it */
} names[] = {
    {"vision_encoder.", HF},
    {"vision_tower.", HF},
    {"", HF},
    {"image_encoder.", "patch_embed.proj.", "blocks.%u.", "norm1.", "norm2.", "mlp.lin1.",
     "mlp.lin2.", "neck.0.", "neck.1.", "neck.2.", "neck.3.", 1e-6f},
    {"", "patch_embed.proj.", "blocks.%u.", "norm1.", "norm2.", "mlp.fc1.", "mlp.fc2.", "neck.0.",
     "neck.1.", "neck.2.", "neck.3.", 1e-5f},
};
#undef HF

/* Properties of timm's models that do not follow from tensors. */
static const struct {
    const char *begin;
    uint32_t heads, every; /* the last block in each group of `every` attends over all tokens */
} timm[] = {{"samvit_base_", 12, 3}, {"samvit_large_", 16, 6}, {"samvit_huge_", 16, 8}};

/* Fields of its configurations, in addition to those of ViTs. */
static const char fields[] =
    "decoder_hidden_size global_attn_indexes mlp_dim neck_chans post_conv_in_channels "
    "post_conv_mid_channels post_conv_out_channels "
    "num_pos_feats output_channels scale use_abs_pos "
    "use_rel_pos window_size";

typedef struct reader {
    fv_tensor_reader t;
    const fv_config *config;
    fv_config vision; /* section of the encoder: "vision_config", "model_args" or the whole file */
    const char *type;
    const struct names *n;
    fv_sam *s;
    uint32_t window, global[64], globals;
    char block[64];
} reader;

/* Types of transformers whose encoder is SAM's. */
#define TYPES                                                                                      \
    "sam, sam_vision_model, sam_hq, sam_hq_vision_model, got_ocr2, got_ocr2_vision, slanext, "     \
    "slanext_vision, pp_formulanet, pp_formulanet_vision"

static bool owns(const char *type)
{
    return fv_begins_with(type, "samvit_");
}

static fovea_status find_names(reader *r)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char first[64];
        r->n = &names[i];
        snprintf(first, sizeof first, r->n->block, 0u);
        if (fv_reader_unwrap(&r->t, r->n->prefix, r->n->patch, "weight") &&
            snprintf(r->block, sizeof r->block, "%s%s", r->n->prefix, first) > 0 &&
            fv_reader_find(&r->t, r->block, r->n->fc1, "weight"))
            return FOVEA_OK;
    }
    return fv_reader_fail_names(&r->t, "SAM's encoder",
                                "vision_encoder.patch_embed.projection.weight");
}

/* Reads which blocks attend over all tokens, and the size of the other blocks' windows. */
static fovea_status read_windows(reader *r)
{
    fv_sam *s = r->s;
    r->window = 14;
    FV_TRY(fv_config_u32(&r->window, &r->vision, "window_size", 0, FV_SAM_SIDE_MOST));
    const json_t *global = fv_config_get(&r->vision, "global_attn_indexes");
    if (global && !(json_is_array(global) && json_array_size(global) == 0)) {
        FV_TRY(fv_config_count(&r->globals, &r->vision, "global_attn_indexes",
                               sizeof r->global / sizeof *r->global));
        /* as in transformers and timm, indexes of blocks that do not exist have no effect */
        return fv_config_u32s(r->global, r->globals, &r->vision, "global_attn_indexes", 0,
                              DEPTH - 1);
    }
    uint32_t every = 3; /* transformers' default: blocks 2, 5, 8 and 11 attend over all tokens */
    for (size_t i = 0; i < sizeof timm / sizeof *timm; i++)
        if (fv_begins_with(r->type, timm[i].begin))
            every = timm[i].every;
    for (uint32_t i = every - 1; i < s->depth && r->globals < 4; i += every)
        r->global[r->globals++] = i;
    return FOVEA_OK;
}

static fovea_status read_sizes(reader *r)
{
    fv_sam *s = r->s;
    const fv_tensor *patch = fv_reader_find(&r->t, r->n->prefix, r->n->patch, "weight");
    const char *act = "gelu";
    s->width = fv_tensor_dimension(patch, 0);
    s->patch = fv_tensor_dimension(patch, 2);
    FV_TRY(fv_reader_check_size(&r->t, "width", s->width, WIDTH));
    FV_TRY(fv_reader_check_size(&r->t, "side of a patch", s->patch, 1024));
    for (; s->depth <= DEPTH; s->depth++) {
        char name[48];
        snprintf(name, sizeof name, r->n->block, s->depth);
        snprintf(r->block, sizeof r->block, "%s%s", r->n->prefix, name);
        const fv_tensor *fc1 = fv_reader_find(&r->t, r->block, r->n->fc1, "weight");
        if (!fc1)
            break;
        s->hidden = fv_tensor_dimension(fc1, 0);
    }
    FV_TRY(fv_reader_check_size(&r->t, "number of blocks", s->depth, DEPTH));
    FV_TRY(fv_reader_check_size(&r->t, "hidden width", s->hidden, HIDDEN));
    const struct {
        const char *key;
        uint32_t n;
    } told[] = {{"hidden_size", s->width}, {"embed_dim", s->width}, {"num_hidden_layers", s->depth},
                {"depth", s->depth},       {"mlp_dim", s->hidden},  {"patch_size", s->patch},
                {"num_channels", 3},       {"in_chans", 3}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        FV_TRY(fv_reader_agree(&r->t, &r->vision, told[i].key, told[i].n));
    s->heads = 12;
    s->eps = r->n->eps;
    for (size_t i = 0; i < sizeof timm / sizeof *timm; i++)
        if (fv_begins_with(r->type, timm[i].begin))
            s->heads = timm[i].heads;
    FV_TRY(fv_config_u32(&s->heads, &r->vision, "num_attention_heads", 1, UINT16_MAX));
    FV_TRY(fv_config_u32(&s->heads, &r->vision, "num_heads", 1, UINT16_MAX));
    FV_TRY(fv_config_float(&s->eps, &r->vision, "layer_norm_eps", 0, 1));
    FV_TRY(fv_config_text(&act, &r->vision, "hidden_act"));
    if (strcmp(act, "gelu") != 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"hidden_act\" is \"%.40s\"; SAM's encoder must have \"gelu\"",
                       r->config->file, act);
    if (s->width % s->heads)
        return fv_fail(FOVEA_EFORMAT, "%s: %u heads do not divide the %u channels", r->config->file,
                       s->heads, s->width);
    return read_windows(r);
}

/* Reads the positions of the patches: (1, height, width, C). */
static fovea_status read_positions(reader *r)
{
    fv_sam *s = r->s;
    fovea_model_info *info = &r->t.m->info;
    const fv_tensor *t = fv_reader_find(&r->t, r->n->prefix, "pos_embed", "");
    uint32_t w = 1024, h = 1024;
    bool square;
    FV_TRY(fv_config_size(&w, &h, &square, &r->vision, "image_size"));
    FV_TRY(fv_config_size(&w, &h, &square, &r->vision, "img_size"));
    if (t) {
        const bool first = t->rank == 4; /* the first dimension is a batch of one */
        s->table_height = fv_tensor_dimension(t, first ? 1 : 0);
        s->table_width = fv_tensor_dimension(t, first ? 2 : 1);
        FV_TRY(fv_reader_check_size(&r->t, "height of the position table", s->table_height,
                                    FV_SAM_SIDE_MOST));
        FV_TRY(fv_reader_check_size(&r->t, "width of the position table", s->table_width,
                                    FV_SAM_SIDE_MOST));
        const uint64_t shape[3] = {s->table_height, s->table_width, s->width};
        FV_TRY(fv_reader_tensor(&t, &r->t, r->n->prefix, "pos_embed", "", 3, shape));
        s->table = fv_weight_of(t, s->table_height * s->table_width, s->width);
        w = s->table_width * s->patch;
        h = s->table_height * s->patch;
    } else if (strcmp(r->type, "samvit_base_patch16_224") == 0 &&
               !fv_config_get(&r->vision, "img_size")) {
        w = h = 224;
    }
    info->native_width = w - w % s->patch;
    info->native_height = h - h % s->patch;
    FV_TRY(fv_reader_check_size(&r->t, "width of the picture", info->native_width,
                                FV_SAM_SIDE_MOST * 16));
    return fv_reader_check_size(&r->t, "height of the picture", info->native_height,
                                FV_SAM_SIDE_MOST * 16);
}

/* Extracts `count` blocks of `c` rows, from block `from` on, of the tensor with queries, keys and
 * values. */
static void cut(fv_layer *l, const fv_tensor *w, const fv_tensor *b, uint32_t c, uint32_t from,
                uint32_t count)
{
    l->w = (fv_weight){.rows = count * c, .cols = c};
    fv_weight_add(&l->w,
                  (fv_weight_part){
                      .tensor = w, .offset = (uint64_t)from * c * c, .rows = count * c, .cols = c});
    if (!b)
        return;
    l->b = (fv_weight){.rows = 1, .cols = count * c};
    fv_weight_add(
        &l->b,
        (fv_weight_part){.tensor = b, .offset = (uint64_t)from * c, .rows = 1, .cols = count * c});
}

static fovea_status read_qkv(reader *r, fv_sam_block *block)
{
    const uint32_t c = r->s->width;
    const uint64_t whole[2] = {3ull * c, c};
    const fv_tensor *w, *b = NULL;
    FV_TRY(fv_reader_tensor(&w, &r->t, r->block, "attn.qkv.", "weight", 2, whole));
    if (fv_reader_find(&r->t, r->block, "attn.qkv.", "bias"))
        FV_TRY(fv_reader_tensor(&b, &r->t, r->block, "attn.qkv.", "bias", 1, whole));
    if (block->window) {
        cut(&block->qkv, w, b, c, 0, 3);
    } else {
        cut(&block->q, w, b, c, 0, 1);
        cut(&block->kv, w, b, c, 1, 2);
    }
    return FOVEA_OK;
}

/* Reads a table of relative positions. In windows, it must have their size; over all tokens, it
 * will be resized to the grid. */
static fovea_status read_rel_pos(reader *r, fv_weight *w, const fv_sam_block *b, const char *stem)
{
    const fv_tensor *t = fv_reader_find(&r->t, r->block, stem, "");
    const uint32_t rows = b->window ? 2 * b->window - 1 : fv_tensor_dimension(t, 0);
    if (!t)
        return FOVEA_OK;
    FV_TRY(fv_reader_check_size(&r->t, "number of relative positions", rows, 2 * FV_SAM_SIDE_MOST));
    return fv_reader_matrix(w, &r->t, r->block, stem, "", rows, r->s->width / r->s->heads);
}

static fovea_status read_block(reader *r, uint32_t i)
{
    fv_sam *s = r->s;
    fv_sam_block *b = &s->block[i];
    char name[48];
    snprintf(name, sizeof name, r->n->block, i);
    snprintf(r->block, sizeof r->block, "%s%s", r->n->prefix, name);
    b->window = r->window;
    for (uint32_t k = 0; k < r->globals; k++)
        b->window = r->global[k] == i ? 0 : b->window;
    FV_TRY(fv_reader_norm(&b->ln1, &r->t, r->block, r->n->ln1, s->width));
    FV_TRY(read_qkv(r, b));
    FV_TRY(read_rel_pos(r, &b->rel_pos_h, b, "attn.rel_pos_h"));
    FV_TRY(read_rel_pos(r, &b->rel_pos_w, b, "attn.rel_pos_w"));
    if (fv_weight_present(&b->rel_pos_h) != fv_weight_present(&b->rel_pos_w))
        return fv_reader_missing(&r->t, r->block, "\"attn.rel_pos_h\" and \"attn.rel_pos_w\"");
    FV_TRY(fv_reader_linear(&b->proj, &r->t, r->block, "attn.proj.", s->width, s->width));
    FV_TRY(fv_reader_norm(&b->ln2, &r->t, r->block, r->n->ln2, s->width));
    FV_TRY(fv_reader_linear(&b->fc1, &r->t, r->block, r->n->fc1, s->hidden, s->width));
    FV_TRY(fv_reader_linear(&b->fc2, &r->t, r->block, r->n->fc2, s->width, s->hidden));
    return fv_reader_all_used(&r->t, r->block);
}

static fovea_status read_neck(reader *r)
{
    fv_sam *s = r->s;
    const char *p = r->n->prefix;
    const fv_tensor *first = fv_reader_find(&r->t, p, r->n->neck, "weight");
    if (!first)
        return fv_reader_norm(&s->neck_norm, &r->t, p, "neck.", s->width);
    const uint32_t out = fv_tensor_dimension(first, 0);
    FV_TRY(fv_reader_check_size(&r->t, "width of the neck", out, WIDTH));
    FV_TRY(fv_reader_matrix(&s->neck.w, &r->t, p, r->n->neck, "weight", out, s->width));
    FV_TRY(fv_reader_norm(&s->neck_norm, &r->t, p, r->n->neck_norm, out));
    FV_TRY(fv_reader_conv(&s->neck_conv, &r->t, p, r->n->neck_conv, out, out, 3));
    return fv_reader_norm(&s->neck_conv_norm, &r->t, p, r->n->neck_conv_norm, out);
}

static fovea_status read_tensors(reader *r)
{
    fv_sam *s = r->s;
    FV_TRY(find_names(r));
    FV_TRY(read_sizes(r));
    const uint32_t pixels = 3 * s->patch * s->patch;
    const uint64_t conv[4] = {s->width, 3, s->patch, s->patch};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->n->prefix, r->n->patch, "weight", 4, conv));
    s->embed.w = fv_weight_of(t, s->width, pixels);
    FV_TRY(fv_reader_matrix(&s->embed.b, &r->t, r->n->prefix, r->n->patch, "bias", 1, s->width));
    FV_TRY(read_positions(r));
    FV_TRY(FV_MEM_ARRAY(&s->block, s->depth, FV_MEM_MODEL, "blocks"));
    for (uint32_t i = 0; i < s->depth; i++)
        FV_TRY(read_block(r, i));
    FV_TRY(read_neck(r));
    const fv_tensor *head = fv_reader_find(&r->t, "", "head.fc.", "weight");
    if (head)
        FV_TRY(fv_reader_linear(&s->head, &r->t, "", "head.fc.", fv_tensor_dimension(head, 0),
                                s->neck_norm.w.cols));
    /* Checks only names with the encoder's prefix, because a complete SAM also has a decoder. */
    fv_reader_leave(&r->t, r->n->prefix, "multi_modal_projector"); /* PP-FormulaNet */
    return fv_reader_all_used(&r->t, r->n->prefix);
}

/* Reads the decoder of masks, if the checkpoint has one. That of SAM-HQ is another one. */
static fovea_status read_decoder(reader *r)
{
    fv_sam *s = r->s;
    if (!fv_reader_lists(&r->t, "", "mask_decoder.iou_token.", "weight") ||
        fv_begins_with(r->type, "sam_hq"))
        return FOVEA_OK;
    const bool official = strcmp(r->n->prefix, "image_encoder.") == 0;
    FV_TRY(fv_sam_decoder_read(&s->decoder, &r->t, r->config,
                               official ? FV_SAM_OF_AUTHORS : FV_SAM_OF_TRANSFORMERS));
    s->decoder.prompts.features[0] = "last_hidden_state";
    if (s->decoder.width != s->neck_norm.w.cols)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the mask decoder reads %u channels, but the encoder's features have %u",
                       r->t.source->name, s->decoder.width, s->neck_norm.w.cols);
    r->t.m->prompts = &s->decoder.prompts;
    r->t.m->info.prompt_masks = FV_SAM_MASKS;
    return FOVEA_OK;
}

static fovea_status fill_info(reader *r)
{
    const fv_sam *s = r->s;
    fovea_model *m = r->t.m;
    const bool of_timm = fv_begins_with(r->type, "samvit_");
    snprintf(m->info.type, sizeof m->info.type, "%s",
             strlen(r->type) < sizeof m->info.type ? r->type : "sam_vision_model");
    m->info.width = s->width;
    m->info.depth = s->depth;
    m->info.heads = s->heads;
    m->info.patch = s->patch;
    m->info.classes = s->head.w.rows;
    m->preprocess = fv_processor_default(of_timm ? FV_PROCESSOR_TIMM : FV_PROCESSOR_SAM,
                                         m->info.native_width, m->info.native_height);
    if (of_timm)
        FV_TRY(fv_processor_read_timm(&m->preprocess, &m->timm_transform, r->config));
    FV_TRY(FV_MEM_ARRAY(&m->outputs, s->depth + 5ull, FV_MEM_MODEL, "list of outputs"));
    if (s->head.w.rows)
        FV_TRY(fv_model_add_output(m, "logits"));
    FV_TRY(fv_model_add_output(m, "last_hidden_state"));
    if (of_timm)
        FV_TRY(fv_model_add_output(m, "pooler_output"));
    for (uint32_t i = 0; i <= s->depth; i++)
        FV_TRY(fv_model_add_output(m, "hidden%u", i));
    return fv_segmentation_read(m, r->t.source, r->config->file, &s->neck_norm.w.cols, 1);
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    fv_config own;
    FV_TRY(fv_config_type(&r.type, config));
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_config_section(&r.vision, config, "vision_config"));
    if (!r.vision.object)
        r.vision = *config;
    FV_TRY(fv_fields_check(config, &r.vision, &own, fields));
    if (fv_config_get(config, "model_args"))
        FV_TRY(fv_config_section(&r.vision, config, "model_args"));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_sam), FV_MEM_MODEL, "roles"));
    r.s = m->roles;
    FV_TRY(read_tensors(&r));
    FV_TRY(read_decoder(&r));
    return fill_info(&r);
}

static void release(fovea_model *m)
{
    fv_sam *s = m->roles;
    if (s) {
        fv_mem_free(s->block);
        fv_sam_decoder_release(&s->decoder);
    }
    fv_mem_free(s);
    m->roles = NULL;
}

/* ---- computing ---- */

typedef struct context {
    fv_builder *b;
    const fv_sam *s;
    uint32_t tokens;
    fv_view x; /* the residual stream */
    fv_windows windows;
} context;

/* Adds the relative positions of the queries q to `a`. The queries are grids of width x height
 * tokens, one after another. */
static void add_positions(const context *c, const fv_sam_block *w, fv_attention *a, uint32_t width,
                          uint32_t height, fv_view q, uint32_t rows)
{
    if (!fv_weight_present(&w->rel_pos_h))
        return;
    const fv_weight down = fv_emit_rel_pos_table(c->b, &w->rel_pos_h, height);
    const fv_weight across = fv_emit_rel_pos_table(c->b, &w->rel_pos_w, width);
    const fv_rel_pos p = {&down, &across, height, width, a->heads, a->d};
    a->rel_pos = fv_emit_rel_pos(c->b, "relative positions", &p, q, rows);
    a->rel_columns = width;
}

static fv_attention attention_of(const context *c, uint32_t keys)
{
    const uint32_t d = c->s->width / c->s->heads;
    return (fv_attention){.heads = c->s->heads,
                          .d = d,
                          .dv = d,
                          .queries = keys,
                          .keys = keys,
                          .scale = 1 / sqrt(d),
                          .grid = &c->b->options->grid};
}

static void attend_windows(context *c, const fv_sam_block *w)
{
    fv_builder *b = c->b;
    if (!c->windows.rows)
        c->windows = fv_windows_make(b, &b->options->grid, w->window, (fv_window_shift){0});
    if (b->status != FOVEA_OK)
        return;
    const uint32_t rows = c->windows.rows, width = c->s->width;
    const fv_view normed =
        fv_windows_enter(b, &c->windows, "norm for q, k, v", c->x, &w->ln1, c->s->eps);
    const fv_view qkv = fv_layer_product(b, "q, k, v", &w->qkv, normed, 0, rows);
    const fv_view out = fv_emit_rows(b, rows, width);
    fv_attention a = attention_of(c, rows);
    a.k = fv_view_cols(qkv, width);
    a.v = fv_view_cols(qkv, 2 * width);
    add_positions(c, w, &a, w->window, w->window, qkv, rows);
    fv_emit_window(b, "attention", &a, qkv, w->window * w->window, NULL, out);
    c->x = fv_windows_leave(b, &c->windows, "projection", &w->proj, out, c->x);
}

static void attend_all(context *c, const fv_sam_block *w, const fv_attention_name *name)
{
    fv_builder *b = c->b;
    const uint32_t n = c->tokens, width = c->s->width;
    const bool sums = name->kind == FV_ATTENTION_LINEAR;
    fv_view in = fv_layer_norm(b, "norm for k, v", &w->ln1, c->x, c->s->eps, n);
    const fv_view kv = fv_layer_product(b, "k, v", &w->kv, in, 0, n);
    fv_attention a = attention_of(c, n);
    a.mech = name->mech;
    a.margin = name->margin;
    a.k = kv;
    a.v = fv_view_cols(kv, width);
    fv_attention_scales(&a, name, sums ? 1 : a.scale, sums ? 1e-6 * n : 1e-6);
    fv_emit_keys(b, "keys", &a);

    in = fv_layer_norm(b, "norm for q", &w->ln1, c->x, c->s->eps, n);
    const fv_view q = fv_layer_product(b, "q", &w->q, in, 0, n), out = fv_emit_rows(b, n, width);
    if (a.mech == FV_MECH_ANY && !a.margin)
        add_positions(c, w, &a, b->options->grid.width, b->options->grid.height, q, n);
    fv_emit_queries(b, "attention", &a, q, out);
    c->x = fv_layer_add(b, "projection", &w->proj, out, c->x, n);
}

static void block(context *c, uint32_t i)
{
    fv_builder *b = c->b;
    const fv_sam_block *w = &c->s->block[i];
    fv_emit_enter_block(b, "block %u", i);
    if (w->window)
        attend_windows(c, w);
    else
        attend_all(c, w, fv_block_attention(b, i));
    const fv_view normed = fv_layer_norm(b, "mlp norm", &w->ln2, c->x, c->s->eps, c->tokens);
    const fv_view h = fv_layer_product(b, "fc1", &w->fc1, normed, FV_EPI_GELU, c->tokens);
    c->x = fv_layer_add(b, "fc2", &w->fc2, h, c->x, c->tokens);
    fv_emit_leave_block(b);
}

/* Emits the neck, whose last norm writes to `out`. */
static void neck(const context *c, fv_view out)
{
    fv_builder *b = c->b;
    const fv_sam *s = c->s;
    const uint32_t n = c->tokens, width = s->neck_norm.w.cols;
    if (!fv_weight_present(&s->neck.w)) {
        fv_emit_layernorm(b, "neck", c->x, &s->neck_norm.w, &s->neck_norm.b, NECK_EPS, out, n);
        return;
    }
    const fv_view narrow = fv_layer_product(b, "neck", &s->neck, c->x, 0, n);
    const fv_conv conv = {
        .w = &s->neck_conv.w,
        .in = fv_layer_norm(b, "norm of the neck", &s->neck_norm, narrow, NECK_EPS, n),
        .out = fv_emit_rows(b, n, width),
        .from = b->options->grid,
        .to = b->options->grid,
        .channels = width,
        .size = 3,
        .stride = 1,
        .pad = 1};
    fv_emit_conv(b, "convolution of the neck", &conv);
    fv_emit_layernorm(b, "last norm", conv.out, &s->neck_conv_norm.w, &s->neck_conv_norm.b,
                      NECK_EPS, out, n);
}

static void hidden(const context *c, uint32_t i)
{
    char name[24];
    snprintf(name, sizeof name, "hidden%u", i);
    fv_emit_offer(c->b, name, c->x, c->tokens, c->s->width, &c->b->options->grid);
}

static fovea_status check_attention(const fv_builder *b)
{
    for (uint32_t i = 0; i < b->options->blocks; i++)
        if (fv_block_attention(b, i)->gated)
            return fv_fail(
                FOVEA_ENOTSUP,
                "block %u: SAM's encoder has no gates; use the attention without the prefix sla-",
                i);
    return FOVEA_OK;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_sam *s = m->roles;
    context c = {.b = b, .s = s, .tokens = fv_grid_tokens(&b->options->grid)};
    FV_TRY(check_attention(b));
    const fv_view patches = fv_emit_rows(b, c.tokens, 3 * s->patch * s->patch);
    fv_emit_patches(b, &b->options->grid, s->patch, s->patch, 0, patches);
    c.x = fv_layer_product(b, "embed", &s->embed, patches, 0, c.tokens);
    const fv_weight none = {0};
    const fv_posemb p = {&none, &s->table, s->table_width, s->table_height, FV_POS_AA};
    if (fv_weight_present(&s->table))
        fv_emit_posemb(b, "positions", &p, &b->options->grid, c.x, c.x);
    hidden(&c, 0);
    for (uint32_t i = 0; i < s->depth && b->status == FOVEA_OK; i++) {
        block(&c, i);
        hidden(&c, i + 1);
    }
    const uint32_t width = s->neck_norm.w.cols;
    const fv_view y =
        fv_emit_output(b, "last_hidden_state", c.tokens, width, &b->options->grid, true);
    fv_emit_layout(b, "last_hidden_state", FOVEA_OUTPUT_LAYOUT_PLANES);
    neck(&c, y);
    const fv_view logits =
        fv_emit_task_output(b, "logits", FOVEA_OUTPUT_LOGITS, 1, s->head.w.rows, NULL, false);
    const fv_view mean = fv_emit_output(b, "pooler_output", 1, width, NULL, logits.id >= 0);
    if (mean.id >= 0)
        fv_emit_mean(b, "mean", y, &b->options->grid, width, mean);
    if (logits.id >= 0)
        fv_layer_write(b, "head", &s->head, mean, logits, 1);
    fv_segmentation_emit(m, b, 0, y, &b->options->grid);
    return b->status;
}

static fovea_status prompt(const fovea_model *m, fv_builder *b, uint32_t tokens)
{
    const fv_sam *s = m->roles;
    return fv_sam_decoder_emit(&s->decoder, b, tokens);
}

FV_DEFINE_FAMILY(sam, .name = "sam", .types = TYPES,
                 .sign = "vision_encoder.patch_embed.projection.",
                 .second_sign = "vision_encoder.neck.conv1.weight", .attention = "softmax",
                 .owns = owns, .read = read_model, .emit = emit, .prompt = prompt,
                 .release = release, .synthetic = &fv_sam_synthetics)
