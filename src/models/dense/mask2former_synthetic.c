/* mask2former_synthetic.c: makes Mask2Former checkpoints with random weights and the published
 * decoders, for the 150 classes of ADE20K, over DINOv2 of the published sizes, and over pyramids.
 */
#include "models/dense/mask2former.h"
#include "models/vit/vit_synthetic.h"

enum {
    LEVELS = FV_MASK2FORMER_LEVELS,
    TAPS = 4,
    WIDTH = 256,
    HEADS = 8,
    PIXEL_LAYERS = 6,
    PIXEL_HIDDEN = 1024,
    LAYERS = 9,
    HIDDEN = 2048,
    QUERIES = 100,
    CLASSES = 150,
    PATCH = 14,
    SIDE = 518,
};

static const struct size {
    const char *name;
    uint32_t width, depth, heads, tap[TAPS];
} sizes[] = {
    {"mask2former-s", 384, 12, 6, {3, 6, 9, 12}},
    {"mask2former-b", 768, 12, 12, {3, 6, 9, 12}},
    {"mask2former-l", 1024, 24, 16, {6, 12, 18, 24}},
};

static void pixel_layer(fv_synthetic *m, uint32_t i)
{
    const uint32_t samples = HEADS * LEVELS * FV_MASK2FORMER_POINTS;
    fv_synthetic_under(m, "model.pixel_level_module.decoder.encoder.layers.%u.", i);
    fv_synthetic_linear(m, "self_attn.sampling_offsets.", 2 * samples, WIDTH, 1, 2);
    fv_synthetic_linear(m, "self_attn.attention_weights.", samples, WIDTH, 1, 1);
    fv_synthetic_linear(m, "self_attn.value_proj.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_linear(m, "self_attn.output_proj.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_linear(m, "fc1.", PIXEL_HIDDEN, WIDTH, 1, 1);
    fv_synthetic_linear(m, "fc2.", WIDTH, PIXEL_HIDDEN, 1, 1);
    fv_synthetic_norm(m, "self_attn_layer_norm.", WIDTH);
    fv_synthetic_norm(m, "final_layer_norm.", WIDTH);
}

static void pixels(fv_synthetic *m, const uint32_t channels[TAPS])
{
    for (uint32_t k = 0; k < LEVELS; k++) {
        fv_synthetic_under(m, "model.pixel_level_module.decoder.input_projections.%u.", k);
        fv_synthetic_linear(m, "0.", WIDTH, channels[TAPS - 1 - k], 1, 1);
        fv_synthetic_norm(m, "1.", WIDTH);
    }
    for (uint32_t i = 0; i < PIXEL_LAYERS; i++)
        pixel_layer(m, i);
    fv_synthetic_under(m, "model.pixel_level_module.decoder.");
    fv_synthetic_table(m, "level_embed", LEVELS, WIDTH, 1);
    fv_synthetic_matrix(m, "adapter_1.0.", WIDTH, channels[0], 1, 1);
    fv_synthetic_norm(m, "adapter_1.1.", WIDTH);
    fv_synthetic_matrix(m, "layer_1.0.", WIDTH, WIDTH, 3, 1);
    fv_synthetic_norm(m, "layer_1.1.", WIDTH);
    fv_synthetic_linear(m, "mask_projection.", WIDTH, WIDTH, 1, 1);
}

static void layer(fv_synthetic *m, uint32_t i)
{
    static const char *const part[] = {"q", "k", "v", "out"};
    fv_synthetic_under(m, "model.transformer_module.decoder.layers.%u.", i);
    fv_synthetic_table(m, "cross_attn.in_proj_weight", 3 * WIDTH, WIDTH, 0.1f);
    fv_synthetic_vector(m, "cross_attn.in_proj_bias", 3 * WIDTH, 0, 0.1f);
    fv_synthetic_linear(m, "cross_attn.out_proj.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_linear(m, "fc1.", HIDDEN, WIDTH, 1, 1);
    fv_synthetic_linear(m, "fc2.", WIDTH, HIDDEN, 1, 1);
    fv_synthetic_norm(m, "cross_attn_layer_norm.", WIDTH);
    fv_synthetic_norm(m, "self_attn_layer_norm.", WIDTH);
    fv_synthetic_norm(m, "final_layer_norm.", WIDTH);
    for (uint32_t k = 0; k < 4; k++) {
        fv_synthetic_under(m, "model.transformer_module.decoder.layers.%u.self_attn.%s_proj.", i,
                           part[k]);
        fv_synthetic_linear(m, "", WIDTH, WIDTH, 1, 1);
    }
}

static void queries(fv_synthetic *m)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        layer(m, i);
    fv_synthetic_under(m, "model.transformer_module.");
    fv_synthetic_table(m, "queries_features.weight", QUERIES, WIDTH, 1);
    fv_synthetic_table(m, "queries_embedder.weight", QUERIES, WIDTH, 1);
    fv_synthetic_table(m, "level_embed.weight", LEVELS, WIDTH, 1);
    fv_synthetic_norm(m, "decoder.layernorm.", WIDTH);
    fv_synthetic_under(m, "model.transformer_module.decoder.");
    fv_synthetic_linear(m, "mask_predictor.mask_embedder.0.0.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_linear(m, "mask_predictor.mask_embedder.1.0.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_linear(m, "mask_predictor.mask_embedder.2.0.", WIDTH, WIDTH, 1, 1);
    fv_synthetic_under(m, "class_predictor.");
    fv_synthetic_linear(m, "", CLASSES + 1, WIDTH, 1, 1);
}

void fv_mask2former_synthetic(fv_synthetic *m, const uint32_t channels[TAPS])
{
    pixels(m, channels);
    queries(m);
}

json_t *fv_mask2former_synthetic_config(json_t *backbone)
{
    return json_pack("{s:s, s:i, s:o}", "model_type", "mask2former", "num_attention_heads", HEADS,
                     "backbone_config", backbone);
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const uint32_t channels[TAPS] = {s->width, s->width, s->width, s->width};
    fv_vit_spec backbone = {.kind = FV_VIT_DINOV2,
                            .root = "model.pixel_level_module.encoder.",
                            .width = s->width,
                            .depth = s->depth,
                            .heads = s->heads,
                            .hidden = 4 * s->width,
                            .patch = PATCH,
                            .image = SIDE};
    fv_vit_synthetic_encoder(m, &backbone);
    fv_mask2former_synthetic(m, channels);
    return fv_mask2former_synthetic_config(
        fv_synthetic_join(fv_vit_synthetic_config(&backbone, "dinov2"),
                          json_pack("{s:o}", "out_indices", fv_synthetic_four(s->tap))));
}

const fv_synthetic_list fv_mask2former_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
