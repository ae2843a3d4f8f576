/* rf_detr_synthetic.c: makes RF-DETR and LW-DETR checkpoints of the published sizes with random
 * weights, the names of published files, and one group of queries. */
#include <stdio.h>

#include "models/detr/rf_detr.h"
#include "models/vit/vit_synthetic.h"

enum {
    WIDTH = 384,
    DEPTH = 12,
    MODEL = 256,
    PAIRS = 3,
    FFN = 2048,
    HEADS = 16,
    POINTS = 2,
    CLASSES = 91
};

static const struct size {
    const char *name;
    uint32_t patch, side, windows, layers; /* side: side of the position table */
    uint32_t tap; /* the first of four taps, which are three blocks from each other */
    uint32_t queries;
    bool masks;
} sizes[] = {
    {"rf-detr-n", 16, 24, 2, 2, 3, 300, false},     {"rf-detr-s", 16, 32, 2, 3, 3, 300, false},
    {"rf-detr-m", 16, 36, 2, 4, 3, 300, false},     {"rf-detr-b", 14, 37, 4, 3, 2, 300, false},
    {"rf-detr-l", 16, 44, 2, 4, 3, 300, false},     {"rf-detr-seg-n", 12, 26, 1, 4, 3, 100, true},
    {"rf-detr-seg-s", 12, 32, 2, 4, 3, 100, true},  {"rf-detr-seg-m", 12, 36, 2, 5, 3, 200, true},
    {"rf-detr-seg-l", 12, 42, 2, 5, 3, 200, true},  {"rf-detr-seg-xl", 12, 52, 2, 6, 3, 300, true},
    {"rf-detr-seg-2xl", 12, 64, 2, 6, 3, 300, true}};

/* The checkpoint that is being made. */
typedef struct context {
    fv_synthetic *m;
    const fv_detr_names *n;
    bool lw;
} context;

static void convolution(const context *c, uint32_t out, uint32_t in, uint32_t size)
{
    fv_synthetic_matrix(c->m, "conv.", out, in, size, 1);
    if (c->lw)
        fv_synthetic_batchnorm(c->m, c->n->norm, out, 0.1f);
    else
        fv_synthetic_norm(c->m, c->n->norm, out);
}

static void projector(const context *c, uint32_t in)
{
    const fv_detr_names *n = c->n;
    fv_synthetic_under(c->m, "%s%s", n->projector, n->first);
    convolution(c, MODEL, in, 1);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        char part[64];
        snprintf(part, sizeof part, n->pair_part, i / 2, i % 2 + 1);
        fv_synthetic_under(c->m, "%s%s", n->projector, part);
        convolution(c, MODEL / 2, MODEL / 2, 3);
    }
    fv_synthetic_under(c->m, "%s%s", n->projector, n->last);
    convolution(c, MODEL, (2 + PAIRS) * (MODEL / 2), 1);
    fv_synthetic_under(c->m, "%s", n->projector);
    fv_synthetic_norm(c->m, n->projected, MODEL);
}

static void layer(const context *c, uint32_t i)
{
    fv_synthetic *m = c->m;
    const fv_detr_names *n = c->n;
    fv_synthetic_under(m, "%slayers.%u.", n->decoder, i);
    if (n->q) {
        fv_synthetic_linear(m, n->q, MODEL, MODEL, 1, 1);
        fv_synthetic_linear(m, n->k, MODEL, MODEL, 1, 1);
        fv_synthetic_linear(m, n->v, MODEL, MODEL, 1, 1);
    } else {
        fv_synthetic_linear(m, "self_attn.in_proj_", 3 * MODEL, MODEL, 1, 1);
    }
    fv_synthetic_linear(m, n->self_out, MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.sampling_offsets.", HEADS * POINTS * 2, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.attention_weights.", HEADS * POINTS, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.value_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.output_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, n->fc1, FFN, MODEL, 1, 1);
    fv_synthetic_linear(m, n->fc2, MODEL, FFN, 1, 1);
    for (uint32_t k = 0; k < 3; k++)
        fv_synthetic_norm(m, n->norms[k], MODEL);
}

/* Adds a box head with small weights, so that boxes stay near the cells at which they begin. */
static void box(fv_synthetic *m, const char *prefix, const char *stem)
{
    fv_synthetic_under(m, "%s%s", prefix, stem);
    fv_synthetic_linear(m, "layers.0.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "layers.1.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "layers.2.", 4, MODEL, 1, 0.3f);
}

static void decoder(const context *c, uint32_t layers, uint32_t queries)
{
    fv_synthetic *m = c->m;
    const fv_detr_names *n = c->n;
    char name[64];
    for (uint32_t i = 0; i < layers; i++)
        layer(c, i);
    fv_synthetic_under(m, "%s", n->decoder);
    fv_synthetic_norm(m, n->decoder_norm, MODEL);
    fv_synthetic_linear(m, "ref_point_head.layers.0.", MODEL, 2 * MODEL, 1, 1);
    fv_synthetic_linear(m, "ref_point_head.layers.1.", MODEL, MODEL, 1, 1);
    fv_synthetic_under(m, "%s", n->transformer);
    fv_synthetic_linear(m, "enc_output.0.", MODEL, MODEL, 1, 1);
    fv_synthetic_norm(m, "enc_output_norm.0.", MODEL);
    fv_synthetic_linear(m, "enc_out_class_embed.0.", CLASSES, MODEL, 1, 1);
    box(m, n->transformer, "enc_out_bbox_embed.0.");
    box(m, "", "bbox_embed.");
    fv_synthetic_under(m, "%s", "");
    snprintf(name, sizeof name, "%sweight", n->query);
    fv_synthetic_table(m, name, queries, MODEL, 1);
    snprintf(name, sizeof name, "%sweight", n->reference);
    fv_synthetic_table(m, name, queries, 4, 0.1f);
    fv_synthetic_linear(m, "class_embed.", CLASSES, MODEL, 1, 1);
}

static void mask_head(fv_synthetic *m, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        fv_synthetic_under(m, "segmentation_head.blocks.%u.", i);
        fv_synthetic_linear(m, "dwconv.", MODEL, 1, 3, 1);
        fv_synthetic_norm(m, "norm.", MODEL);
        fv_synthetic_linear(m, "pwconv1.", MODEL, MODEL, 1, 1);
    }
    fv_synthetic_under(m, "segmentation_head.");
    fv_synthetic_linear(m, "spatial_features_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_norm(m, "query_features_block.norm_in.", MODEL);
    fv_synthetic_linear(m, "query_features_block.layers.0.", 4 * MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "query_features_block.layers.2.", MODEL, 4 * MODEL, 1, 1);
    fv_synthetic_linear(m, "query_features_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_vector(m, "bias", 1, 0, 0.1f);
}

/* The fields that both have. */
static json_t *config(const char *type, json_t *backbone, uint32_t layers, uint32_t queries)
{
    return backbone ? json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                                type, "backbone_config", backbone, "d_model", MODEL, "num_queries",
                                (int)queries, "group_detr", 1, "decoder_layers", (int)layers,
                                "decoder_self_attention_heads", HEADS / 2,
                                "decoder_cross_attention_heads", HEADS, "decoder_n_points", POINTS,
                                "decoder_ffn_dim", FFN)
                    : NULL;
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const context c = {.m = m, .n = &fv_detr_names_of[0]};
    const uint32_t taps[4] = {s->tap, s->tap + 3, s->tap + 6, s->tap + 9};
    fv_vit_spec backbone = {.kind = c.n->kind,
                            .root = c.n->backbone,
                            .width = WIDTH,
                            .depth = DEPTH,
                            .heads = WIDTH / 64,
                            .hidden = 4 * WIDTH,
                            .patch = s->patch,
                            .image = s->side * s->patch,
                            .scaled = true,
                            .spread = 0.1f};
    fv_vit_synthetic_encoder(m, &backbone);
    projector(&c, 4 * WIDTH);
    decoder(&c, s->layers, s->queries);
    if (s->masks)
        mask_head(m, s->layers);
    json_t *own = fv_synthetic_join(fv_vit_synthetic_config(&backbone, c.n->backbone_type),
                                    json_pack("{s:i, s:o}", "num_windows", (int)s->windows,
                                              "out_indices", fv_synthetic_four(taps)));
    return config("rf_detr", own, s->layers, s->queries);
}

const fv_synthetic_list fv_rf_detr_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};

/* ---- LW-DETR ---- */

enum { LW_PATCH = 16, LW_PRETRAINED = 224, LW_IMAGE = 640, LW_LAYERS = 3 };

static const struct lw_size {
    const char *name;
    uint32_t width, depth, queries;
    const char *lists; /* the fields of config.json that list blocks */
    uint32_t taps;
} lw_sizes[] = {
    {"lw-detr-t", 192, 6, 100, "{\"window_block_indices\": [0, 2, 4], \"out_indices\": [2, 4, 6]}",
     3},
    {"lw-detr-s", 192, 10, 300,
     "{\"window_block_indices\": [0, 1, 3, 6, 7, 9], \"out_indices\": [2, 4, 5, 9]}", 4},
    {"lw-detr-m", 384, 10, 300,
     "{\"window_block_indices\": [0, 1, 3, 6, 7, 9], \"out_indices\": [2, 4, 5, 9]}", 4},
};

static json_t *make_lw(fv_synthetic *m, const void *size)
{
    const struct lw_size *s = size;
    const context c = {.m = m, .n = &fv_detr_names_of[1], .lw = true};
    fv_vit_spec backbone = {.kind = c.n->kind,
                            .root = c.n->backbone,
                            .width = s->width,
                            .depth = s->depth,
                            .heads = 12,
                            .hidden = 4 * s->width,
                            .patch = LW_PATCH,
                            .image = LW_PRETRAINED,
                            .scaled = true,
                            .spread = 0.1f};
    fv_vit_synthetic_encoder(m, &backbone);
    projector(&c, s->taps * s->width);
    decoder(&c, LW_LAYERS, s->queries);
    json_t *own = fv_synthetic_join(fv_vit_synthetic_config(&backbone, c.n->backbone_type),
                                    json_loads(s->lists, 0, NULL));
    own = fv_synthetic_join(
        own, json_pack("{s:i, s:i}", "image_size", LW_IMAGE, "pretrain_image_size", LW_PRETRAINED));
    return fv_synthetic_join(config("lw_detr", own, LW_LAYERS, s->queries),
                             json_pack("{s:[f]}", "projector_scale_factors", 1.0));
}

const fv_synthetic_list fv_lw_detr_synthetics = {FV_SYNTHETIC_SIZES(lw_sizes), .make = make_lw};
