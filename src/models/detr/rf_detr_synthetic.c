/* rf_detr_synthetic.c: RF-DETR of the published sizes with random weights, its authors' names, and
 * one group of queries. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/detr/rf_detr.h"
#include "models/synthetic.h"

enum {
    WIDTH = 384,
    DEPTH = 12,
    MODEL = 256,
    PAIRS = 3,
    FFN = 2048,
    QUERIES = 300,
    HEADS = 16,
    POINTS = 2,
    CLASSES = 91
};

static const struct spec {
    const char *name;
    uint32_t patch, side, windows, layers; /* side: of the position table */
    uint32_t tap; /* the first of four taps, with a stride of three blocks */
} specs[] = {{"rf-detr-n", 16, 24, 2, 2, 3},
             {"rf-detr-s", 16, 32, 2, 3, 3},
             {"rf-detr-m", 16, 36, 2, 4, 3},
             {"rf-detr-b", 14, 37, 4, 3, 2},
             {"rf-detr-l", 16, 44, 2, 4, 3}};

const char *fv_rf_detr_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void vector(fv_synthetic *m, const char *prefix, const char *stem, uint64_t n, float mean,
                   float spread)
{
    fv_synthetic_tensor(m, prefix, stem, 1, &n, mean, spread);
}

static void backbone(fv_synthetic *m, const struct spec *s)
{
    const char *p = "backbone.0.encoder.encoder.embeddings.";
    const uint64_t class[3] = {1, 1, WIDTH}, table[3] = {1, s->side * s->side + 1, WIDTH};
    const float added = 1 / sqrtf(2.f * DEPTH);
    fv_synthetic_tensor(m, p, "cls_token", 3, class, 0, 0.1f);
    fv_synthetic_tensor(m, p, "position_embeddings", 3, table, 0, 0.1f);
    fv_synthetic_linear(m, p, "patch_embeddings.projection.", WIDTH, 3, s->patch, 1);
    for (uint32_t i = 0; i < DEPTH; i++) {
        char block[64];
        snprintf(block, sizeof block, "backbone.0.encoder.encoder.encoder.layer.%u.", i);
        fv_synthetic_norm(m, block, "norm1.", WIDTH);
        fv_synthetic_linear(m, block, "attention.attention.query.", WIDTH, WIDTH, 1, 1);
        fv_synthetic_linear(m, block, "attention.attention.key.", WIDTH, WIDTH, 1, 1);
        fv_synthetic_linear(m, block, "attention.attention.value.", WIDTH, WIDTH, 1, 1);
        fv_synthetic_linear(m, block, "attention.output.dense.", WIDTH, WIDTH, 1, added);
        vector(m, block, "layer_scale1.lambda1", WIDTH, 1, 0.1f);
        fv_synthetic_norm(m, block, "norm2.", WIDTH);
        fv_synthetic_linear(m, block, "mlp.fc1.", 4 * WIDTH, WIDTH, 1, 1);
        fv_synthetic_linear(m, block, "mlp.fc2.", WIDTH, 4 * WIDTH, 1, added);
        vector(m, block, "layer_scale2.lambda1", WIDTH, 1, 0.1f);
    }
    fv_synthetic_norm(m, "backbone.0.encoder.encoder.", "layernorm.", WIDTH);
}

static void convolution(fv_synthetic *m, const char *stem, uint32_t out, uint32_t in, uint32_t size)
{
    const char *p = "backbone.0.projector.stages.0.";
    char name[48];
    snprintf(name, sizeof name, "%sconv.", stem);
    fv_synthetic_matrix(m, p, name, out, in, size, 1);
    snprintf(name, sizeof name, "%sbn.", stem);
    fv_synthetic_norm(m, p, name, out);
}

static void projector(fv_synthetic *m)
{
    convolution(m, "0.cv1.", MODEL, 4 * WIDTH, 1);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        char stem[32];
        snprintf(stem, sizeof stem, "0.m.%u.cv%u.", i / 2, i % 2 + 1);
        convolution(m, stem, MODEL / 2, MODEL / 2, 3);
    }
    convolution(m, "0.cv2.", MODEL, (2 + PAIRS) * (MODEL / 2), 1);
    fv_synthetic_norm(m, "backbone.0.projector.stages.0.", "1.", MODEL);
}

static void layer(fv_synthetic *m, uint32_t i)
{
    const uint64_t in[2] = {3 * MODEL, MODEL};
    char p[48];
    snprintf(p, sizeof p, "transformer.decoder.layers.%u.", i);
    fv_synthetic_tensor(m, p, "self_attn.in_proj_weight", 2, in, 0, sqrtf(3.f / MODEL));
    vector(m, p, "self_attn.in_proj_bias", 3 * MODEL, 0, 0.035f);
    fv_synthetic_linear(m, p, "self_attn.out_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "cross_attn.sampling_offsets.", HEADS * POINTS * 2, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "cross_attn.attention_weights.", HEADS * POINTS, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "cross_attn.value_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "cross_attn.output_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "linear1.", FFN, MODEL, 1, 1);
    fv_synthetic_linear(m, p, "linear2.", MODEL, FFN, 1, 1);
    fv_synthetic_norm(m, p, "norm1.", MODEL);
    fv_synthetic_norm(m, p, "norm2.", MODEL);
    fv_synthetic_norm(m, p, "norm3.", MODEL);
}

/* Adds a box head with small weights, so that boxes stay near the cells at which they begin. */
static void box(fv_synthetic *m, const char *stem)
{
    char p[64];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(p, sizeof p, "%slayers.%u.", stem, i);
        fv_synthetic_linear(m, p, "", i < 2 ? MODEL : 4, MODEL, 1, i < 2 ? 1 : 0.3f);
    }
}

static void decoder(fv_synthetic *m, const struct spec *s)
{
    const uint64_t query[2] = {QUERIES, MODEL}, reference[2] = {QUERIES, 4};
    fv_synthetic_tensor(m, "", "query_feat.weight", 2, query, 0, 1);
    fv_synthetic_tensor(m, "", "refpoint_embed.weight", 2, reference, 0, 0.1f);
    for (uint32_t i = 0; i < s->layers; i++)
        layer(m, i);
    fv_synthetic_norm(m, "transformer.decoder.", "norm.", MODEL);
    fv_synthetic_linear(m, "transformer.decoder.ref_point_head.", "layers.0.", MODEL, 2 * MODEL, 1,
                        1);
    fv_synthetic_linear(m, "transformer.decoder.ref_point_head.", "layers.1.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "transformer.", "enc_output.0.", MODEL, MODEL, 1, 1);
    fv_synthetic_norm(m, "transformer.", "enc_output_norm.0.", MODEL);
    fv_synthetic_linear(m, "transformer.", "enc_out_class_embed.0.", CLASSES, MODEL, 1, 1);
    box(m, "transformer.enc_out_bbox_embed.0.");
    fv_synthetic_linear(m, "", "class_embed.", CLASSES, MODEL, 1, 1);
    box(m, "bbox_embed.");
}

static json_t *describe(const struct spec *s)
{
    const uint32_t taps[4] = {s->tap, s->tap + 3, s->tap + 6, s->tap + 9};
    json_t *own =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "model_type", "rf_detr_dinov2",
                  "hidden_size", WIDTH, "num_hidden_layers", DEPTH, "num_attention_heads",
                  WIDTH / 64, "image_size", (int)(s->side * s->patch), "patch_size", (int)s->patch,
                  "num_windows", (int)s->windows, "out_indices", fv_synthetic_list(taps));
    return own ? json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                           "rf_detr", "backbone_config", own, "d_model", MODEL, "num_queries",
                           QUERIES, "group_detr", 1, "decoder_layers", (int)s->layers,
                           "decoder_self_attention_heads", HEADS / 2,
                           "decoder_cross_attention_heads", HEADS, "decoder_n_points", POINTS,
                           "decoder_ffn_dim", FFN)
               : NULL;
}

fovea_status fv_rf_detr_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    backbone(&m, s);
    projector(&m);
    decoder(&m, s);
    return fv_synthetic_end(config, name, m.status, describe(s));
}
