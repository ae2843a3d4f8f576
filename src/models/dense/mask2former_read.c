/* mask2former_read.c: reads Mask2Former over a ViT or a pyramid, as transformers saves it. */
#include <stdio.h>

#include <fovea/adapt.h>

#include "checkpoint/processor.h"
#include "checkpoint/source.h"
#include "models/dense/mask2former.h"
#include "ops/op.h"

#define PIXELS "model.pixel_level_module.decoder."
#define QUERIES "model.transformer_module."
#define DECODER QUERIES "decoder."

enum {
    LEVELS = FV_MASK2FORMER_LEVELS,
    GROUPS = 32, /* of every group normalisation */
    LAYERS_MOST = FV_MASK2FORMER_LAYERS,
    WIDTH_MOST = 65536,
    HIDDEN_MOST = 1 << 20,
    QUERIES_MOST = 65536,
    HEADS_MOST = 4096,
    STRIDE_MOST = 1 << 16,
    MASK_SQUARE = 384, /* of transformers' image processor, whatever the size of the picture is */
};

/* Fields of its configuration, in addition to those of every transformers configuration. */
static const char fields[] =
    "activation_function backbone=null backbone_config backbone_kwargs={} class_weight "
    "common_stride decoder_layers dice_weight dim_feedforward encoder_feedforward_dim "
    "encoder_layers enforce_input_projection feature_size feature_strides hidden_dim ignore_value "
    "importance_sample_ratio init_std init_xavier_std mask_feature_size mask_weight "
    "no_object_weight num_queries output_auxiliary_logits oversample_ratio pre_norm "
    "train_num_points use_auxiliary_loss use_pretrained_backbone=false use_timm_backbone=false";

static const fv_backbone_form backbone_form = {.types = " dinov2 dinov2_with_registers vit ",
                                               .prefix = "model.pixel_level_module.encoder.",
                                               .grids = true};

typedef struct reader {
    fv_tensor_reader t;
    const fv_config *config;
    fv_mask2former *d;
} reader;

/* ---- sizes ---- */

static fovea_status read_dimension(reader *r, uint32_t *out, const char *prefix, const char *stem,
                                   uint32_t i, const char *what, uint32_t most, const char *key)
{
    FV_TRY(fv_reader_dimension(out, &r->t, prefix, stem, "weight", i, what, most));
    return key ? fv_reader_agree(&r->t, r->config, key, *out) : FOVEA_OK;
}

/* Returns FOVEA_EFORMAT unless `width`, the value of `key`, is a multiple of the number of heads
 * and of n. */
static fovea_status check_width(const reader *r, const char *key, uint32_t width, uint32_t n,
                                const char *why)
{
    if (width % r->d->heads)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"num_attention_heads\" is %u, which does not divide \"%s\", %u",
                       r->config->file, r->d->heads, key, width);
    return width % n == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_EFORMAT, "%s: \"%s\" is %u; it must be a multiple of %u, %s",
                         r->config->file, key, width, n, why);
}

static bool power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

/* Reads how many finer levels there are: transformers counts the doublings from the finest level
 * of the pixel decoder's layers to "common_stride". */
static fovea_status read_strides(reader *r)
{
    fv_mask2former *d = r->d;
    uint32_t stride[FV_BACKBONE_TAPS] = {4, 8, 16, 32}, n = 4, common = 4;
    if (fv_config_get(r->config, "feature_strides")) {
        FV_TRY(fv_config_count(&n, r->config, "feature_strides", FV_BACKBONE_TAPS));
        FV_TRY(fv_config_u32s(stride, n, r->config, "feature_strides", 1, STRIDE_MOST));
    }
    FV_TRY(fv_config_u32(&common, r->config, "common_stride", 1, STRIDE_MOST));
    uint32_t least = stride[n - 1];
    for (uint32_t i = n < LEVELS ? 0 : n - LEVELS; i < n; i++)
        least = stride[i] < least ? stride[i] : least;
    if (!power_of_two(least) || !power_of_two(common) || common > least)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"common_stride\" is %u and the least of the last three of "
                       "\"feature_strides\" is %u; both must be powers of two, and the first at "
                       "most the second",
                       r->config->file, common, least);
    for (d->finer = 0; common << d->finer < least;)
        d->finer++;
    return d->finer <= d->taps
               ? FOVEA_OK
               : fv_fail(FOVEA_EFORMAT,
                         "%s: \"common_stride\" asks for %u levels finer than those of the pixel "
                         "decoder's layers, but the backbone has only %u stages",
                         r->config->file, d->finer, d->taps);
}

static fovea_status read_sizes(reader *r)
{
    fv_mask2former *d = r->d;
    uint32_t queries;
    FV_TRY(read_dimension(r, &d->width, PIXELS, "mask_projection.", 1, "width of the pixel decoder",
                          WIDTH_MOST, "feature_size"));
    FV_TRY(read_dimension(r, &queries, QUERIES, "queries_features.", 0, "number of queries",
                          QUERIES_MOST, "num_queries"));
    FV_TRY(read_dimension(r, &d->query_width, QUERIES, "queries_features.", 1,
                          "width of the queries", WIDTH_MOST, "hidden_dim"));
    d->heads = 8;
    FV_TRY(fv_config_u32(&d->heads, r->config, "num_attention_heads", 1, HEADS_MOST));
    FV_TRY(check_width(r, "feature_size", d->width, GROUPS,
                       "the number of groups of its group normalisation"));
    FV_TRY(check_width(r, "hidden_dim", d->query_width, 4,
                       "for sines and cosines of two coordinates"));
    FV_TRY(fv_reader_matrix(&d->query, &r->t, QUERIES, "queries_features.", "weight", queries,
                            d->query_width));
    FV_TRY(fv_reader_matrix(&d->position, &r->t, QUERIES, "queries_embedder.", "weight", queries,
                            d->query_width));
    FV_TRY(fv_config_activation(&d->act, r->config, "activation_function", "relu"));
    FV_TRY(fv_config_bool(&d->pre_norm, r->config, "pre_norm"));
    if (d->taps < LEVELS)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"backbone_config.out_features\" has %u stages; Mask2Former needs at "
                       "least %d",
                       r->config->file, d->taps, LEVELS);
    return read_strides(r);
}

/* ---- the pixel decoder ---- */

/* Reads a convolution, stem + "0.", and the group normalisation after it, stem + "1.". */
static fovea_status read_conv(reader *r, fv_conv_module *c, const char *stem, uint32_t channels,
                              uint32_t size, uint32_t act)
{
    char conv[48], norm[48];
    snprintf(conv, sizeof conv, "%s0.", stem);
    snprintf(norm, sizeof norm, "%s1.", stem);
    c->size = size;
    c->groups = GROUPS;
    c->act = act;
    FV_TRY(fv_reader_conv(&c->l, &r->t, PIXELS, conv, r->d->width, channels, size));
    return fv_reader_norm(&c->norm, &r->t, PIXELS, norm, r->d->width);
}

static fovea_status read_levels(reader *r)
{
    fv_mask2former *d = r->d;
    const uint32_t width = d->width;
    char stem[32];
    for (uint32_t k = 0; k < LEVELS; k++) {
        snprintf(stem, sizeof stem, "input_projections.%u.", k);
        FV_TRY(read_conv(r, &d->input[k], stem, d->channels[d->taps - 1 - k], 1, 0));
    }
    for (uint32_t i = 0; i < d->finer; i++) {
        snprintf(stem, sizeof stem, "adapter_%u.", i + 1);
        FV_TRY(read_conv(r, &d->lateral[i], stem, d->channels[i], 1, 0));
        snprintf(stem, sizeof stem, "layer_%u.", i + 1);
        FV_TRY(read_conv(r, &d->output[i], stem, width, 3, FV_EPI_RELU));
    }
    FV_TRY(fv_reader_matrix(&d->level, &r->t, PIXELS, "level_embed", "", LEVELS, width));
    uint32_t features;
    FV_TRY(read_dimension(r, &features, PIXELS, "mask_projection.", 0, "number of features",
                          WIDTH_MOST, "mask_feature_size"));
    return fv_reader_conv(&d->features, &r->t, PIXELS, "mask_projection.", features, width, 1);
}

static fovea_status read_pixel_layer(reader *r, uint32_t i)
{
    static const char *const sampling[] = {"self_attn.sampling_offsets.",
                                           "self_attn.attention_weights."};
    const fv_mask2former *d = r->d;
    fv_mask2former_pixel_layer *l = &d->pixel_layer[i];
    const uint32_t width = d->width, samples = d->heads * LEVELS * FV_MASK2FORMER_POINTS;
    const uint32_t rows[] = {2 * samples, samples};
    char p[64];
    uint32_t hidden;
    snprintf(p, sizeof p, PIXELS "encoder.layers.%u.", i);
    FV_TRY(read_dimension(r, &hidden, p, "fc1.", 0, "width of the pixel decoder's MLP", HIDDEN_MOST,
                          "encoder_feedforward_dim"));
    FV_TRY(fv_reader_stacked(&l->sampling, &r->t, p, sampling, rows, 2, width));
    FV_TRY(fv_reader_linear(&l->values, &r->t, p, "self_attn.value_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->out, &r->t, p, "self_attn.output_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->fc1, &r->t, p, "fc1.", hidden, width));
    FV_TRY(fv_reader_linear(&l->fc2, &r->t, p, "fc2.", width, hidden));
    FV_TRY(fv_reader_norm(&l->norm[0], &r->t, p, "self_attn_layer_norm.", width));
    return fv_reader_norm(&l->norm[1], &r->t, p, "final_layer_norm.", width);
}

static fovea_status read_pixels(reader *r)
{
    fv_mask2former *d = r->d;
    FV_TRY(read_levels(r));
    d->pixel_layers = fv_reader_count(&r->t, PIXELS, "encoder.layers.%u.fc1.", LAYERS_MOST);
    FV_TRY(fv_reader_check_size(&r->t, "number of the pixel decoder's layers", d->pixel_layers,
                                LAYERS_MOST));
    FV_TRY(fv_reader_agree(&r->t, r->config, "encoder_layers", d->pixel_layers));
    FV_TRY(FV_MEM_ARRAY(&d->pixel_layer, d->pixel_layers, FV_MEM_MODEL, "the pixel decoder"));
    for (uint32_t i = 0; i < d->pixel_layers; i++)
        FV_TRY(read_pixel_layer(r, i));
    return FOVEA_OK;
}

/* ---- the decoder of queries ---- */

/* Reads masked attention. */
static fovea_status read_cross(reader *r, fv_mask2former_layer *l, const char *p)
{
    const uint32_t width = r->d->query_width;
    const uint64_t whole[2] = {3ull * width, width};
    const fv_tensor *w, *b;
    FV_TRY(fv_reader_tensor(&w, &r->t, p, "cross_attn.in_proj_weight", "", 2, whole));
    FV_TRY(fv_reader_tensor(&b, &r->t, p, "cross_attn.in_proj_bias", "", 1, whole));
    fv_layer_cut(&l->cross_q, w, b, width, 0, width);
    fv_layer_cut(&l->cross_k, w, b, width, width, width);
    fv_layer_cut(&l->cross_v, w, b, width, 2 * width, width);
    return fv_reader_linear(&l->cross_out, &r->t, p, "cross_attn.out_proj.", width, width);
}

static fovea_status read_layer(reader *r, uint32_t i)
{
    static const char *const qk[] = {"self_attn.q_proj.", "self_attn.k_proj."};
    static const char *const norm[] = {"cross_attn_layer_norm.", "self_attn_layer_norm.",
                                       "final_layer_norm."};
    fv_mask2former_layer *l = &r->d->layer[i];
    const uint32_t width = r->d->query_width, rows[] = {width, width};
    char p[64];
    uint32_t hidden;
    snprintf(p, sizeof p, DECODER "layers.%u.", i);
    FV_TRY(read_dimension(r, &hidden, p, "fc1.", 0, "width of the decoder's MLP", HIDDEN_MOST,
                          "dim_feedforward"));
    FV_TRY(read_cross(r, l, p));
    FV_TRY(fv_reader_stacked(&l->self_qk, &r->t, p, qk, rows, 2, width));
    FV_TRY(fv_reader_linear(&l->self_v, &r->t, p, "self_attn.v_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->self_out, &r->t, p, "self_attn.out_proj.", width, width));
    FV_TRY(fv_reader_linear(&l->fc1, &r->t, p, "fc1.", hidden, width));
    FV_TRY(fv_reader_linear(&l->fc2, &r->t, p, "fc2.", width, hidden));
    for (uint32_t k = 0; k < 3; k++)
        FV_TRY(fv_reader_norm(&l->norm[k], &r->t, p, norm[k], width));
    return FOVEA_OK;
}

static fovea_status read_layers(reader *r)
{
    fv_mask2former *d = r->d;
    d->layers = fv_reader_count(&r->t, DECODER, "layers.%u.fc1.", LAYERS_MOST);
    FV_TRY(fv_reader_check_size(&r->t, "number of the decoder's layers", d->layers, LAYERS_MOST));
    FV_TRY(fv_reader_agree(&r->t, r->config, "decoder_layers", d->layers + 1));
    FV_TRY(fv_reader_matrix(&d->level_rows, &r->t, QUERIES, "level_embed.", "weight", LEVELS,
                            d->query_width));
    FV_TRY(FV_MEM_ARRAY(&d->layer, d->layers, FV_MEM_MODEL, "the decoder"));
    for (uint32_t i = 0; i < d->layers; i++)
        FV_TRY(read_layer(r, i));
    return FOVEA_OK;
}

static fovea_status read_queries(reader *r)
{
    fv_mask2former *d = r->d;
    const uint32_t width = d->query_width, features = d->features.w.rows;
    bool enforced = false;
    char stem[64];
    FV_TRY(fv_config_bool(&enforced, r->config, "enforce_input_projection"));
    for (uint32_t k = 0; k < LEVELS && (enforced || d->width != width); k++) {
        snprintf(stem, sizeof stem, "input_projections.%u.", k);
        FV_TRY(fv_reader_conv(&d->level_in[k], &r->t, QUERIES, stem, width, d->width, 1));
    }
    FV_TRY(read_layers(r));
    FV_TRY(fv_reader_norm(&d->norm, &r->t, DECODER, "layernorm.", width));
    for (uint32_t k = 0; k < 3; k++) {
        snprintf(stem, sizeof stem, "mask_predictor.mask_embedder.%u.0.", k);
        FV_TRY(
            fv_reader_linear(&d->mask[k], &r->t, DECODER, stem, k < 2 ? width : features, width));
    }
    uint32_t classes;
    FV_TRY(read_dimension(r, &classes, "", "class_predictor.", 0, "number of classes", WIDTH_MOST,
                          NULL));
    FV_TRY(fv_reader_check_size(&r->t, "number of classes", classes - 1, WIDTH_MOST));
    return fv_reader_linear(&d->classes, &r->t, "", "class_predictor.", classes, width);
}

/* ---- the whole ---- */

static void visit_conv(const fv_conv_module *c, fv_weight_visit *visit, void *ctx)
{
    fv_layer_visit(&c->l, visit, ctx);
    fv_layer_visit(&c->norm, visit, ctx);
}

static void visit_layers(const fv_layer *l, size_t n, fv_weight_visit *visit, void *ctx)
{
    for (size_t i = 0; i < n; i++)
        fv_layer_visit(&l[i], visit, ctx);
}

void fv_mask2former_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                            void *ctx)
{
    const fv_mask2former *d = &((const fv_mask2former_vit *)m->roles)->decoders;
    if (purpose == FV_IS_HEAD || purpose == FV_IS_POSITION) {
        visit(ctx, &d->level);
        visit(ctx, &d->query);
        visit(ctx, &d->position);
        visit(ctx, &d->level_rows);
    }
    if (purpose != FV_IS_HEAD)
        return;
    for (uint32_t k = 0; k < LEVELS; k++)
        visit_conv(&d->input[k], visit, ctx);
    for (uint32_t i = 0; i < d->finer; i++) {
        visit_conv(&d->lateral[i], visit, ctx);
        visit_conv(&d->output[i], visit, ctx);
    }
    for (uint32_t i = 0; i < d->pixel_layers; i++) {
        const fv_mask2former_pixel_layer *l = &d->pixel_layer[i];
        const fv_layer all[] = {l->sampling, l->values,  l->out,    l->fc1,
                                l->fc2,      l->norm[0], l->norm[1]};
        visit_layers(all, sizeof all / sizeof *all, visit, ctx);
    }
    for (uint32_t i = 0; i < d->layers; i++) {
        const fv_mask2former_layer *l = &d->layer[i];
        const fv_layer all[] = {l->cross_q, l->cross_k, l->cross_v,  l->cross_out,
                                l->self_qk, l->self_v,  l->self_out, l->fc1,
                                l->fc2,     l->norm[0], l->norm[1],  l->norm[2]};
        visit_layers(all, sizeof all / sizeof *all, visit, ctx);
    }
    visit_layers(d->level_in, LEVELS, visit, ctx);
    visit_layers(d->mask, 3, visit, ctx);
    fv_layer_visit(&d->features, visit, ctx);
    fv_layer_visit(&d->norm, visit, ctx);
    fv_layer_visit(&d->classes, visit, ctx);
}

/* Reads the decoders, and sets what their outputs need. */
static fovea_status read_decoders(reader *r)
{
    fovea_model *m = r->t.m;
    FV_TRY(read_sizes(r));
    FV_TRY(read_pixels(r));
    FV_TRY(read_queries(r));
    fv_reader_ignore(&r->t, "", "criterion");    /* used only in training */
    m->info.segments = r->d->classes.w.rows - 1; /* the last one: the class "nothing" */
    m->info.masks = r->d->query.rows;
    m->mask_square = MASK_SQUARE;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_MASK2FORMER, m->info.native_width, m->info.native_height);
    return FOVEA_OK;
}

static void release(fv_mask2former *d)
{
    fv_mem_free(d->pixel_layer);
    fv_mem_free(d->layer);
}

static fovea_status check_fields(const fv_config *config)
{
    fv_config own;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    return fv_fields_check(config, config, &own, fields);
}

fovea_status fv_mask2former_read(fv_decoder_reader *from, const fv_config *config)
{
    reader r = {.t = from->t, .config = config};
    FV_TRY(check_fields(config));
    FV_TRY(FV_MEM_NEW(&from->d->mask2former, FV_MEM_MODEL, "Mask2Former's decoders"));
    r.d = from->d->mask2former;
    r.d->taps = from->levels;
    for (uint32_t i = 0; i < from->levels; i++)
        r.d->channels[i] = from->channels[i];
    return read_decoders(&r);
}

void fv_mask2former_release(fv_decoder *d)
{
    if (d->mask2former)
        release(d->mask2former);
    fv_mem_free(d->mask2former);
}

fovea_status fv_mask2former_read_vit(fovea_model *m, const fv_source *source,
                                     const fv_config *config)
{
    reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    fv_mask2former_vit *v;
    snprintf(m->info.type, sizeof m->info.type, "mask2former");
    FV_TRY(check_fields(config));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof *v, FV_MEM_MODEL, "roles"));
    v = m->roles;
    r.d = &v->decoders;
    if (m->additions && m->additions->head == FOVEA_HEAD_MASK2FORMER)
        FV_TRY(fv_mask2former_put(&r.t, config));
    FV_TRY(fv_backbone_read(&v->backbone, &r.t, config, &backbone_form));
    r.d->taps = v->backbone.taps;
    for (uint32_t i = 0; i < r.d->taps; i++)
        r.d->channels[i] = v->backbone.vit.width;
    FV_TRY(read_decoders(&r));
    /* another head is not part of a model whose tensors were renamed */
    FV_TRY(fv_reader_all_used(&r.t, source->renamed ? "model." : ""));
    return fv_backbone_list_outputs(m, &v->backbone, "masks_queries_logits",
                                    "class_queries_logits");
}

void fv_mask2former_release_vit(fovea_model *m)
{
    fv_mask2former_vit *v = m->roles;
    if (v) {
        fv_mem_free(v->backbone.vit.block);
        release(&v->decoders);
    }
    fv_mem_free(v);
    m->roles = NULL;
}
