/* eomt_synthetic.c: makes EoMT checkpoints of the published sizes for COCO's panoptic segmentation,
 * with random weights and transformers' names. */
#include "models/dense/eomt.h"
#include "models/vit/vit_synthetic.h"

enum { PATCH = 16, SIDE = 640, REGISTERS = 4, QUERIES = 200, CLASSES = 133, UPSCALES = 2 };

static const struct size {
    const char *name;
    uint32_t width, depth, heads, joined;
    bool dinov3;
} sizes[] = {
    {"eomt-s", 384, 12, 6, 3, false},        {"eomt-b", 768, 12, 12, 3, false},
    {"eomt-l", 1024, 24, 16, 4, false},      {"eomt-dinov3-s", 384, 12, 6, 3, true},
    {"eomt-dinov3-b", 768, 12, 12, 3, true}, {"eomt-dinov3-l", 1024, 24, 16, 4, true},
};

static void heads(fv_synthetic *m, uint32_t c)
{
    fv_synthetic_table(m, "query.weight", QUERIES, c, 1);
    fv_synthetic_linear(m, "class_predictor.", CLASSES + 1, c, 1, 1);
    fv_synthetic_linear(m, "mask_head.fc1.", c, c, 1, 1);
    fv_synthetic_linear(m, "mask_head.fc2.", c, c, 1, 1);
    fv_synthetic_linear(m, "mask_head.fc3.", c, c, 1, 1);
    for (uint32_t i = 0; i < UPSCALES; i++) {
        fv_synthetic_under(m, "upscale_block.block.%u.", i);
        /* Each output pixel is a sum over only one of the 2 x 2 taps. */
        fv_synthetic_linear(m, "conv1.", c, c, 2, 2);
        fv_synthetic_matrix(m, "conv2.", c, 1, 3, 1);
        fv_synthetic_norm(m, "layernorm2d.", c);
    }
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const char *type = s->dinov3 ? "eomt_dinov3" : "eomt";
    fv_vit_spec encoder = {.kind = s->dinov3 ? FV_VIT_DINOV3 : FV_VIT_REGISTERS,
                           .names = fv_eomt_names(type),
                           .width = s->width,
                           .depth = s->depth,
                           .heads = s->heads,
                           .hidden = 4 * s->width,
                           .patch = PATCH,
                           .image = SIDE,
                           .registers = REGISTERS,
                           .spread = 0.1f};
    fv_vit_synthetic_encoder(m, &encoder);
    heads(m, s->width);
    return fv_synthetic_join(fv_vit_synthetic_config(&encoder, type),
                             json_pack("{s:i, s:i, s:i, s:i}", "num_register_tokens", REGISTERS,
                                       "num_queries", QUERIES, "num_blocks", (int)s->joined,
                                       "num_upscale_blocks", UPSCALES));
}

const fv_synthetic_list fv_eomt_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
