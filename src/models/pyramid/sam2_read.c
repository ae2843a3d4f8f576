/* sam2_read.c: reads SAM 2 from transformers' files, also from those for videos, of which it reads
 * the parts for single pictures. Sizes are those of config.json. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/processor.h"
#include "models/fields.h"
#include "models/model.h"
#include "models/pyramid/sam2.h"

#define WIDTH 65536
#define HEADS 1024
#define DEPTH 256
#define WINDOW 64 /* most tokens along the side of a window */
#define TABLE 1024
#define HIDDEN_RATIO 64

static const char backbone_fields[] =
    "blocks_per_stage embed_dim_per_stage global_attention_blocks num_attention_heads_per_stage "
    "num_query_pool_stages patch_kernel_size patch_padding patch_stride query_stride "
    "window_positional_embedding_background_size window_size_per_stage",
                  vision_fields[] = "backbone_channel_list backbone_config backbone_feature_sizes "
                                    "fpn_hidden_size fpn_kernel_size fpn_padding fpn_stride "
                                    "fpn_top_down_levels num_feature_levels";

/* The prefixes of a whole model and of an encoder by itself. */
static const char *const prefixes[] = {"vision_encoder.", ""};

typedef struct reader {
    fv_tensor_reader t;
    const fv_config *config;
    fv_config vision, backbone; /* sections */
    const char *prefix;
    char block[64]; /* prefix of a block's tensors */
    fv_sam2 *s;
    uint32_t global[64], globals; /* blocks that attend over all tokens */
    float ratio;
} reader;

const char *fv_sam2_feature(const fv_sam2 *s, uint32_t i)
{
    static const char *const of_decoder[] = {"image_embeddings.0", "image_embeddings.1",
                                             "image_embeddings"},
                             *const of_encoder[] = {"fpn_hidden_states.0", "fpn_hidden_states.1",
                                                    "fpn_hidden_states.2"};
    return s->decoder.layers ? of_decoder[i] : of_encoder[i];
}

/* ---- configuration ---- */

/* Reads a list of `n` numbers, which keep their values if it is absent. */
static fovea_status read_list(uint32_t *out, uint32_t n, const fv_config *c, const char *key,
                              uint32_t min, uint32_t max)
{
    return fv_config_get(c, key) ? fv_config_u32s(out, n, c, key, min, max) : FOVEA_OK;
}

/* Refuses numbers other than `value`: one, or a pair. */
static fovea_status check_pair(const fv_config *c, const char *key, uint32_t value)
{
    uint32_t pair[2] = {value, value};
    if (json_is_array(fv_config_get(c, key)))
        FV_TRY(fv_config_u32s(pair, 2, c, key, 0, UINT32_MAX));
    else
        FV_TRY(fv_config_u32(&pair[0], c, key, 0, UINT32_MAX));
    if (pair[0] == value && pair[1] == value)
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOTSUP, "%s: \"%s\" is %u; SAM 2's encoder must have %u", c->file, key,
                   pair[0] == value ? pair[1] : pair[0], value);
}

static fovea_status read_stages(reader *r)
{
    fv_sam2 *s = r->s;
    const fv_config *c = &r->backbone;
    const uint32_t width[] = {96, 192, 384, 768}, heads[] = {1, 2, 4, 8}, depth[] = {1, 2, 7, 2},
                   window[] = {8, 4, 14, 7};
    memcpy(s->width, width, sizeof width);
    memcpy(s->heads, heads, sizeof heads);
    memcpy(s->depth, depth, sizeof depth);
    memcpy(s->window, window, sizeof window);
    FV_TRY(read_list(s->width, FV_SAM2_STAGES, c, "embed_dim_per_stage", 1, WIDTH));
    FV_TRY(read_list(s->heads, FV_SAM2_STAGES, c, "num_attention_heads_per_stage", 1, HEADS));
    FV_TRY(read_list(s->depth, FV_SAM2_STAGES, c, "blocks_per_stage", 1, DEPTH));
    FV_TRY(read_list(s->window, FV_SAM2_STAGES, c, "window_size_per_stage", 1, WINDOW));
    for (uint32_t i = 0; i < FV_SAM2_STAGES; i++) {
        s->blocks += s->depth[i];
        if (s->width[i] % s->heads[i])
            return fv_fail(FOVEA_EFORMAT, "%s: %u heads do not divide the %u channels of stage %u",
                           c->file, s->heads[i], s->width[i], i);
        if (i < FV_SAM2_STAGES - 1 && s->window[i] % 2)
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: \"window_size_per_stage[%u]\" is %u; it must be even, because the "
                           "next stage pools queries in such windows",
                           c->file, i, s->window[i]);
    }
    return FOVEA_OK;
}

static fovea_status read_config(reader *r)
{
    fv_sam2 *s = r->s;
    const fv_config *c = &r->backbone;
    const uint32_t usual[] = {5, 7, 9};
    uint32_t levels[2] = {2, 3};
    const char *act = "gelu";
    FV_TRY(read_stages(r));
    memcpy(r->global, usual, sizeof usual);
    r->globals = sizeof usual / sizeof *usual;
    const json_t *global = fv_config_get(c, "global_attention_blocks");
    if (global && json_is_array(global) && json_array_size(global) == 0) {
        r->globals = 0;
    } else if (global) {
        FV_TRY(fv_config_count(&r->globals, c, "global_attention_blocks",
                               sizeof r->global / sizeof *r->global));
        FV_TRY(fv_config_u32s(r->global, r->globals, c, "global_attention_blocks", 0, UINT32_MAX));
    }
    FV_TRY(check_pair(c, "patch_kernel_size", FV_SAM2_PATCH));
    FV_TRY(check_pair(c, "patch_stride", FV_SAM2_STRIDE));
    FV_TRY(check_pair(c, "patch_padding", FV_SAM2_PATCH / 2));
    FV_TRY(check_pair(c, "query_stride", 2));
    FV_TRY(check_pair(c, "num_query_pool_stages", FV_SAM2_STAGES - 1));
    FV_TRY(check_pair(&r->vision, "num_feature_levels", FV_SAM2_STAGES - 1));
    FV_TRY(check_pair(&r->vision, "fpn_kernel_size", 1));
    FV_TRY(check_pair(&r->vision, "fpn_stride", 1));
    FV_TRY(check_pair(&r->vision, "fpn_padding", 0));
    FV_TRY(read_list(levels, 2, &r->vision, "fpn_top_down_levels", 0, FV_SAM2_STAGES - 1));
    if (levels[0] != 2 || levels[1] != 3)
        return fv_config_fail(&r->vision, "fpn_top_down_levels", "[2, 3]");
    r->ratio = 4;
    s->eps = 1e-6f;
    FV_TRY(fv_config_float(&r->ratio, c, "mlp_ratio", 0, HIDDEN_RATIO));
    FV_TRY(fv_config_float(&s->eps, c, "layer_norm_eps", 0, 1));
    FV_TRY(fv_config_text(&act, c, "hidden_act"));
    if (strcmp(act, "gelu") != 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"hidden_act\" is \"%.40s\"; SAM 2's encoder must have \"gelu\"",
                       c->file, act);
    return FOVEA_OK;
}

/* ---- blocks ---- */

static bool is_global(const reader *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->globals; k++)
        if (r->global[k] == i)
            return true;
    return false;
}

static fovea_status read_qkv(reader *r, fv_sam2_block *b)
{
    const uint64_t shape[2] = {3ull * b->width, b->in};
    const fv_tensor *w, *bias;
    FV_TRY(fv_reader_tensor(&w, &r->t, r->block, "attn.qkv.", "weight", 2, shape));
    FV_TRY(fv_reader_tensor(&bias, &r->t, r->block, "attn.qkv.", "bias", 1, shape));
    if (b->window && !b->pools) {
        fv_layer_cut(&b->qkv, w, bias, b->in, 0, 3 * b->width);
        return FOVEA_OK;
    }
    fv_layer_cut(&b->q, w, bias, b->in, 0, b->width);
    fv_layer_cut(&b->kv, w, bias, b->in, b->width, 2 * b->width);
    return FOVEA_OK;
}

/* Reads block `i`, which is block `k` of a stage. */
static fovea_status read_block(reader *r, uint32_t i, uint32_t stage, uint32_t k)
{
    const fv_sam2 *s = r->s;
    fv_sam2_block *b = &s->block[i];
    const bool first = stage > 0 && k == 0; /* of a stage after the first */
    b->in = s->width[first ? stage - 1 : stage];
    b->width = s->width[stage];
    b->heads = s->heads[stage];
    b->window = is_global(r, i) ? 0 : s->window[first ? stage - 1 : stage];
    b->pools = first;
    if (first && !b->window)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: \"global_attention_blocks\" has block %u, whose queries are pooled; such "
            "blocks must attend in windows",
            r->backbone.file, i);
    const uint32_t hidden = (uint32_t)((double)b->width * (double)r->ratio);
    FV_TRY(fv_reader_check_size(&r->t, "hidden width", hidden, WIDTH * HIDDEN_RATIO));
    snprintf(r->block, sizeof r->block, "%sbackbone.blocks.%u.", r->prefix, i);
    FV_TRY(fv_reader_norm(&b->ln1, &r->t, r->block, "layer_norm1.", b->in));
    FV_TRY(read_qkv(r, b));
    FV_TRY(fv_reader_linear(&b->proj, &r->t, r->block, "attn.proj.", b->width, b->width));
    if (b->in != b->width)
        FV_TRY(fv_reader_linear(&b->skip, &r->t, r->block, "proj.", b->width, b->in));
    FV_TRY(fv_reader_norm(&b->ln2, &r->t, r->block, "layer_norm2.", b->width));
    FV_TRY(fv_reader_linear(&b->fc1, &r->t, r->block, "mlp.proj_in.", hidden, b->width));
    return fv_reader_linear(&b->fc2, &r->t, r->block, "mlp.proj_out.", b->width, hidden);
}

/* ---- embedding, features ---- */

/* Reads a table of positions (1, C, height, width) as a row for each cell. */
static fovea_status read_table(reader *r, fv_weight *w, const char *name, uint32_t height,
                               uint32_t width)
{
    const uint32_t cells = height * width, c = r->s->width[0];
    const uint64_t shape[4] = {1, c, height, width};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, name, "", 4, shape));
    *w = (fv_weight){.rows = cells, .cols = c};
    fv_weight_add(w,
                  (fv_weight_part){
                      .tensor = t, .rows = cells, .cols = c, .row_stride = 1, .col_stride = cells});
    return FOVEA_OK;
}

static fovea_status read_embedding(reader *r)
{
    fv_sam2 *s = r->s;
    const uint32_t side = FV_SAM2_PATCH, c = s->width[0];
    const uint64_t shape[4] = {c, 3, side, side};
    const char *patch = "backbone.patch_embed.projection.";
    uint32_t table[2] = {7, 7};
    const fv_tensor *t;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, patch, "weight", 4, shape));
    s->embed.w = fv_weight_of(t, c, 3 * side * side);
    FV_TRY(fv_reader_matrix(&s->embed.b, &r->t, r->prefix, patch, "bias", 1, c));
    FV_TRY(
        read_list(table, 2, &r->backbone, "window_positional_embedding_background_size", 1, TABLE));
    s->table_height = table[0];
    s->table_width = table[1];
    FV_TRY(read_table(r, &s->positions, "backbone.pos_embed", table[0], table[1]));
    return read_table(r, &s->tile, "backbone.pos_embed_window", s->window[0], s->window[0]);
}

/* Reads the (rows, n) weight and the biases of a layer as floats. Free them with fv_mem_free. */
static fovea_status read_plain(float **w, float **b, reader *r, const char *prefix,
                               const char *stem, uint32_t rows, uint32_t n)
{
    const uint64_t shape[2] = {rows, n};
    const fv_tensor *weight, *bias;
    FV_TRY(fv_reader_tensor(&weight, &r->t, prefix, stem, "weight", 2, shape));
    FV_TRY(fv_reader_tensor(&bias, &r->t, prefix, stem, "bias", 1, shape));
    FV_TRY(FV_MEM_ARRAY(w, (uint64_t)rows * n, FV_MEM_MODEL, "a layer"));
    FV_TRY(FV_MEM_ARRAY(b, rows, FV_MEM_MODEL, "a layer"));
    fv_tensor_read(weight, 0, (uint64_t)rows * n, *w);
    fv_tensor_read(bias, 0, rows, *b);
    return FOVEA_OK;
}

/* The weights of two layers, the second after the first. */
typedef struct two {
    float *w[2], *b[2];
} two;

static fovea_status multiply(fv_layer *l, reader *r, const two *p, const uint32_t n[3])
{
    const fv_tensor *weight, *bias;
    float *w, *b;
    FV_TRY(fv_model_floats(&w, &weight, r->t.m, n[2], n[0]));
    FV_TRY(fv_model_floats(&b, &bias, r->t.m, 1, n[2]));
    for (uint32_t i = 0; i < n[2]; i++) {
        const float *row = p->w[1] + (size_t)i * n[1];
        double sum = p->b[1][i];
        for (uint32_t k = 0; k < n[1]; k++)
            sum += (double)row[k] * (double)p->b[0][k];
        b[i] = (float)sum;
        for (uint32_t j = 0; j < n[0]; j++) {
            sum = 0;
            for (uint32_t k = 0; k < n[1]; k++)
                sum += (double)row[k] * (double)p->w[0][(size_t)k * n[0] + j];
            w[(size_t)i * n[0] + j] = (float)sum;
        }
    }
    l->w = fv_weight_of(weight, n[2], n[0]);
    l->b = fv_weight_of(bias, 1, n[2]);
    return FOVEA_OK;
}

/* Reads the layer of level i of the neck and that of the decoder after it as one layer. Nothing
 * else reads the features between them. */
static fovea_status read_fine(reader *r, uint32_t i, const char *neck)
{
    const uint32_t n[3] = {r->s->width[i], r->s->features, r->s->features >> (3 - i)};
    const char *of_decoder = i ? "mask_decoder.conv_s1." : "mask_decoder.conv_s0.";
    two p = {0};
    fovea_status status = read_plain(&p.w[0], &p.b[0], r, r->prefix, neck, n[1], n[0]);
    FV_THEN(status, read_plain(&p.w[1], &p.b[1], r, "", of_decoder, n[2], n[1]));
    FV_THEN(status, multiply(&r->s->lateral[i], r, &p, n));
    for (uint32_t k = 0; k < 2; k++) {
        fv_mem_free(p.w[k]);
        fv_mem_free(p.b[k]);
    }
    return status;
}

/* Adds the row that stands for no memory of earlier frames to the features. */
static fovea_status add_no_memory(reader *r)
{
    fv_layer *l = &r->s->lateral[2];
    const uint32_t c = r->s->features;
    const uint64_t shape[3] = {1, 1, c};
    const fv_tensor *added, *sum;
    float *data, *more;
    FV_TRY(fv_reader_tensor(&added, &r->t, "", "no_memory_embedding", "", 3, shape));
    FV_TRY(fv_model_floats(&data, &sum, r->t.m, 1, c));
    FV_TRY(FV_MEM_ARRAY(&more, c, FV_MEM_MODEL, "a row"));
    fv_weight_read(&l->b, 0, 1, data);
    fv_tensor_read(added, 0, c, more);
    for (uint32_t i = 0; i < c; i++)
        data[i] += more[i];
    fv_mem_free(more);
    l->b = fv_weight_of(sum, 1, c);
    return FOVEA_OK;
}

static fovea_status read_neck(reader *r, bool decodes)
{
    fv_sam2 *s = r->s;
    FV_TRY(fv_reader_dimension(&s->features, &r->t, r->prefix, "neck.convs.0.", "weight", 0,
                               "width of the features", WIDTH));
    FV_TRY(fv_reader_agree(&r->t, &r->vision, "fpn_hidden_size", s->features));
    for (uint32_t i = 0; i < FV_SAM2_STAGES; i++) {
        char stem[32];
        snprintf(stem, sizeof stem, "neck.convs.%u.", FV_SAM2_STAGES - 1 - i);
        if (decodes && i < 2) {
            FV_TRY(read_fine(r, i, stem));
            continue;
        }
        FV_TRY(fv_reader_linear(&s->lateral[i], &r->t, r->prefix, stem, s->features, s->width[i]));
        if (decodes && i == 2)
            FV_TRY(add_no_memory(r));
    }
    return FOVEA_OK;
}

/* ---- the model ---- */

static fovea_status read_decoder(reader *r)
{
    fv_sam2 *s = r->s;
    fv_prompts *p = &s->decoder.prompts;
    FV_TRY(fv_sam_decoder_read(&s->decoder, &r->t, r->config, FV_SAM2_OF_TRANSFORMERS));
    if (s->decoder.width != s->features)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the mask decoder reads %u channels, but the encoder's features have %u",
                       r->t.source->name, s->decoder.width, s->features);
    p->features[0] = fv_sam2_feature(s, 2);
    p->features[1] = fv_sam2_feature(s, 0);
    p->features[2] = fv_sam2_feature(s, 1);
    r->t.m->prompts = p;
    r->t.m->info.prompt_masks = FV_SAM_MASKS;
    return FOVEA_OK;
}

static fovea_status read_tensors(reader *r)
{
    fv_sam2 *s = r->s;
    const char *first = "backbone.patch_embed.projection.";
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !r->prefix; i++)
        if (fv_reader_unwrap(&r->t, prefixes[i], first, "weight"))
            r->prefix = prefixes[i];
    if (!r->prefix)
        return fv_reader_fail_names(&r->t, "SAM 2",
                                    "vision_encoder.backbone.patch_embed.projection.weight");
    const bool decodes =
        *r->prefix && fv_reader_lists(&r->t, "", "mask_decoder.iou_token.", "weight");
    FV_TRY(read_embedding(r));
    FV_TRY(FV_MEM_ARRAY(&s->block, s->blocks, FV_MEM_MODEL, "blocks"));
    for (uint32_t stage = 0, i = 0; stage < FV_SAM2_STAGES; stage++)
        for (uint32_t k = 0; k < s->depth[stage]; k++)
            FV_TRY(read_block(r, i++, stage, k));
    FV_TRY(read_neck(r, decodes));
    if (decodes)
        FV_TRY(read_decoder(r));
    return fv_reader_all_used(&r->t, r->prefix);
}

static fovea_status fill_info(reader *r)
{
    const fv_sam2 *s = r->s;
    fovea_model *m = r->t.m;
    const char *type = "sam2_vision_model";
    uint32_t w = 1024, h = 1024;
    bool square;
    FV_TRY(fv_config_type(&type, r->config));
    FV_TRY(fv_config_size(&w, &h, &square, &r->backbone, "image_size"));
    snprintf(m->info.type, sizeof m->info.type, "%s", type);
    m->info.width = s->width[0];
    m->info.depth = s->blocks;
    m->info.heads = s->heads[0];
    m->info.patch = FV_SAM2_STRIDE;
    m->info.native_width = w - w % FV_SAM2_MULTIPLE;
    m->info.native_height = h - h % FV_SAM2_MULTIPLE;
    FV_TRY(fv_reader_check_size(&r->t, "width of the picture", m->info.native_width, 1u << 16));
    FV_TRY(fv_reader_check_size(&r->t, "height of the picture", m->info.native_height, 1u << 16));
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_SAM2, m->info.native_width, m->info.native_height);
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 5, FV_MEM_MODEL, "list of outputs"));
    if (!s->decoder.layers)
        FV_TRY(fv_model_add_output(m, "last_hidden_state"));
    for (uint32_t i = 3; i-- > 0;)
        FV_TRY(fv_model_add_output(m, "%s", fv_sam2_feature(s, i)));
    return fv_model_add_output(m, "last_hidden_state");
}

fovea_status fv_sam2_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    fv_config own;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_config_section(&r.vision, config, "vision_config"));
    if (!r.vision.object)
        r.vision = *config;
    FV_TRY(fv_fields_check(config, &r.vision, &own, vision_fields));
    FV_TRY(fv_config_section(&r.backbone, &r.vision, "backbone_config"));
    if (r.backbone.object)
        FV_TRY(fv_fields_check(config, &r.backbone, &own, backbone_fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_sam2), FV_MEM_MODEL, "roles"));
    r.s = m->roles;
    FV_TRY(read_config(&r));
    FV_TRY(read_tensors(&r));
    return fill_info(&r);
}

void fv_sam2_release(fovea_model *m)
{
    fv_sam2 *s = m->roles;
    if (s) {
        fv_mem_free(s->block);
        fv_sam_decoder_release(&s->decoder);
    }
    fv_mem_free(s);
    m->roles = NULL;
}
