/* rf_detr_synthetic.c: makes RF-DETR checkpoints of the published sizes with random weights, its
 * authors' names, and one group of queries. */
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

#define PROJECTOR "backbone.0.projector.stages.0."

static void convolution(fv_synthetic *m, uint32_t out, uint32_t in, uint32_t size)
{
    fv_synthetic_matrix(m, "conv.", out, in, size, 1);
    fv_synthetic_norm(m, "bn.", out);
}

static void projector(fv_synthetic *m)
{
    fv_synthetic_under(m, PROJECTOR "0.cv1.");
    convolution(m, MODEL, 4 * WIDTH, 1);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        fv_synthetic_under(m, PROJECTOR "0.m.%u.cv%u.", i / 2, i % 2 + 1);
        convolution(m, MODEL / 2, MODEL / 2, 3);
    }
    fv_synthetic_under(m, PROJECTOR "0.cv2.");
    convolution(m, MODEL, (2 + PAIRS) * (MODEL / 2), 1);
    fv_synthetic_under(m, PROJECTOR);
    fv_synthetic_norm(m, "1.", MODEL);
}

static void layer(fv_synthetic *m, uint32_t i)
{
    fv_synthetic_under(m, "transformer.decoder.layers.%u.", i);
    fv_synthetic_linear(m, "self_attn.in_proj_", 3 * MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "self_attn.out_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.sampling_offsets.", HEADS * POINTS * 2, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.attention_weights.", HEADS * POINTS, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.value_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "cross_attn.output_proj.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "linear1.", FFN, MODEL, 1, 1);
    fv_synthetic_linear(m, "linear2.", MODEL, FFN, 1, 1);
    fv_synthetic_norm(m, "norm1.", MODEL);
    fv_synthetic_norm(m, "norm2.", MODEL);
    fv_synthetic_norm(m, "norm3.", MODEL);
}

/* Adds a box head with small weights, so that boxes stay near the cells at which they begin. */
static void box(fv_synthetic *m, const char *stem)
{
    fv_synthetic_under(m, "%s", stem);
    fv_synthetic_linear(m, "layers.0.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "layers.1.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "layers.2.", 4, MODEL, 1, 0.3f);
}

static void decoder(fv_synthetic *m, const struct size *s)
{
    for (uint32_t i = 0; i < s->layers; i++)
        layer(m, i);
    fv_synthetic_under(m, "transformer.");
    fv_synthetic_norm(m, "decoder.norm.", MODEL);
    fv_synthetic_linear(m, "decoder.ref_point_head.layers.0.", MODEL, 2 * MODEL, 1, 1);
    fv_synthetic_linear(m, "decoder.ref_point_head.layers.1.", MODEL, MODEL, 1, 1);
    fv_synthetic_linear(m, "enc_output.0.", MODEL, MODEL, 1, 1);
    fv_synthetic_norm(m, "enc_output_norm.0.", MODEL);
    fv_synthetic_linear(m, "enc_out_class_embed.0.", CLASSES, MODEL, 1, 1);
    box(m, "transformer.enc_out_bbox_embed.0.");
    box(m, "bbox_embed.");
    fv_synthetic_under(m, "%s", "");
    fv_synthetic_table(m, "query_feat.weight", s->queries, MODEL, 1);
    fv_synthetic_table(m, "refpoint_embed.weight", s->queries, 4, 0.1f);
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

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const uint32_t taps[4] = {s->tap, s->tap + 3, s->tap + 6, s->tap + 9};
    fv_vit_spec backbone = {.kind = FV_VIT_REGISTERS,
                            .root = "backbone.0.encoder.encoder.",
                            .width = WIDTH,
                            .depth = DEPTH,
                            .heads = WIDTH / 64,
                            .hidden = 4 * WIDTH,
                            .patch = s->patch,
                            .image = s->side * s->patch,
                            .scaled = true,
                            .spread = 0.1f};
    fv_vit_synthetic_encoder(m, &backbone);
    projector(m);
    decoder(m, s);
    if (s->masks)
        mask_head(m, s->layers);
    json_t *own = fv_synthetic_join(fv_vit_synthetic_config(&backbone, "rf_detr_dinov2"),
                                    json_pack("{s:i, s:o}", "num_windows", (int)s->windows,
                                              "out_indices", fv_synthetic_four(taps)));
    return own ? json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                           "rf_detr", "backbone_config", own, "d_model", MODEL, "num_queries",
                           (int)s->queries, "group_detr", 1, "decoder_layers", (int)s->layers,
                           "decoder_self_attention_heads", HEADS / 2,
                           "decoder_cross_attention_heads", HEADS, "decoder_n_points", POINTS,
                           "decoder_ffn_dim", FFN)
               : NULL;
}

const fv_synthetic_list fv_rf_detr_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
