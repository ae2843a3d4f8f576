/* eomt_synthetic.c: EoMT's published sizes for panoptic segmentation of COCO, with random weights,
 * in transformers' names.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/dense/eomt.h"
#include "models/synthetic.h"

enum { PATCH = 16, SIDE = 640, REGISTERS = 4, QUERIES = 200, CLASSES = 133, UPSCALES = 2 };

static const struct spec {
    const char *name;
    uint32_t width, depth, heads, joined;
    bool dinov3;
} specs[] = {
    {"eomt-s", 384, 12, 6, 3, false},        {"eomt-b", 768, 12, 12, 3, false},
    {"eomt-l", 1024, 24, 16, 4, false},      {"eomt-dinov3-s", 384, 12, 6, 3, true},
    {"eomt-dinov3-b", 768, 12, 12, 3, true}, {"eomt-dinov3-l", 1024, 24, 16, 4, true},
};

const char *fv_eomt_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void block(fv_synthetic *m, const struct spec *s, uint32_t i)
{
    char p[32];
    const uint32_t c = s->width;
    const uint64_t n = c;
    const float added = 1 / sqrtf(2 * (float)s->depth);
    snprintf(p, sizeof p, "layers.%u.", i);
    fv_synthetic_norm(m, p, "norm1.", c);
    fv_synthetic_linear(m, p, "attention.q_proj.", c, c, 1, 1);
    if (s->dinov3)
        fv_synthetic_matrix(m, p, "attention.k_proj.", c, c, 1, 1);
    else
        fv_synthetic_linear(m, p, "attention.k_proj.", c, c, 1, 1);
    fv_synthetic_linear(m, p, "attention.v_proj.", c, c, 1, 1);
    fv_synthetic_linear(m, p, s->dinov3 ? "attention.o_proj." : "attention.out_proj.", c, c, 1, 1);
    fv_synthetic_tensor(m, p, "layer_scale1.lambda1", 1, &n, added, added / 2);
    fv_synthetic_norm(m, p, "norm2.", c);
    fv_synthetic_linear(m, p, s->dinov3 ? "mlp.up_proj." : "mlp.fc1.", 4 * c, c, 1, 1);
    fv_synthetic_linear(m, p, s->dinov3 ? "mlp.down_proj." : "mlp.fc2.", c, 4 * c, 1, 1);
    fv_synthetic_tensor(m, p, "layer_scale2.lambda1", 1, &n, added, added / 2);
}

static void tokens(fv_synthetic *m, const struct spec *s)
{
    const uint64_t one[2] = {1, s->width}, registers[2] = {REGISTERS, s->width};
    const uint64_t positions[2] = {SIDE / PATCH * (SIDE / PATCH), s->width};
    fv_synthetic_linear(m, "embeddings.",
                        s->dinov3 ? "patch_embeddings." : "patch_embeddings.projection.", s->width,
                        3, PATCH, 1);
    fv_synthetic_tensor(m, "embeddings.", "cls_token", 2, one, 0, 0.1f);
    fv_synthetic_tensor(m, "embeddings.", "register_tokens", 2, registers, 0, 0.1f);
    if (!s->dinov3)
        fv_synthetic_tensor(m, "embeddings.", "position_embeddings.weight", 2, positions, 0, 0.1f);
}

static void heads(fv_synthetic *m, const struct spec *s)
{
    static const char *const mask[] = {"fc1.", "fc2.", "fc3."};
    const uint32_t c = s->width;
    const uint64_t queries[2] = {QUERIES, c};
    fv_synthetic_norm(m, "", "layernorm.", c);
    fv_synthetic_tensor(m, "", "query.weight", 2, queries, 0, 1);
    fv_synthetic_linear(m, "", "class_predictor.", CLASSES + 1, c, 1, 1);
    for (int i = 0; i < 3; i++)
        fv_synthetic_linear(m, "mask_head.", mask[i], c, c, 1, 1);
    for (uint32_t i = 0; i < UPSCALES; i++) {
        char p[48];
        const uint64_t n = c;
        snprintf(p, sizeof p, "upscale_block.block.%u.", i);
        /* Each output pixel is a sum over only one of the 2 x 2 taps. */
        fv_synthetic_matrix(m, p, "conv1.", c, c, 2, 2);
        fv_synthetic_tensor(m, p, "conv1.bias", 1, &n, 0, 0.035f);
        fv_synthetic_matrix(m, p, "conv2.", c, 1, 3, 1);
        fv_synthetic_norm(m, p, "layernorm2d.", c);
    }
}

static json_t *describe(const struct spec *s)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                     s->dinov3 ? "eomt_dinov3" : "eomt", "hidden_size", (int)s->width,
                     "num_hidden_layers", (int)s->depth, "num_attention_heads", (int)s->heads,
                     "image_size", SIDE, "patch_size", PATCH, "num_register_tokens", REGISTERS,
                     "num_queries", QUERIES, "num_blocks", (int)s->joined, "num_upscale_blocks",
                     UPSCALES);
}

fovea_status fv_eomt_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    tokens(&m, s);
    for (uint32_t i = 0; i < s->depth; i++)
        block(&m, s, i);
    heads(&m, s);
    return fv_synthetic_end(config, name, m.status, describe(s));
}
