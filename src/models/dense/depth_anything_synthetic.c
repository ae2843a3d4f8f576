/* depth_anything_synthetic.c: makes checkpoints of Depth Anything and DPT of the published sizes
 * with random weights. */
#include "models/dense/depth_anything.h"
#include "models/vit/vit_synthetic.h"

enum { LEVELS = 4, HEAD = 32 };

static const struct size {
    const char *name;
    uint32_t width, depth, heads, tap[LEVELS], channels[LEVELS], fusion;
    bool plain; /* DPT's own ViT instead of DINOv2 */
} sizes[] = {
    {"depth-anything-s", 384, 12, 6, {3, 6, 9, 12}, {48, 96, 192, 384}, 64},
    {"depth-anything-b", 768, 12, 12, {3, 6, 9, 12}, {96, 192, 384, 768}, 128},
    {"depth-anything-l", 1024, 24, 16, {5, 12, 18, 24}, {256, 512, 1024, 1024}, 256},
};
static const struct size dpt_sizes[] = {
    {"dpt-dinov2-s", 384, 12, 6, {3, 6, 9, 12}, {48, 96, 192, 384}, 256},
    {"dpt-l", 1024, 24, 16, {5, 11, 17, 23}, {256, 512, 1024, 1024}, 256, .plain = true},
};

/* `biased`: the fusion's units have biases. */
static void level(fv_synthetic *m, const struct size *s, uint32_t i, bool biased)
{
    const uint32_t channels = s->channels[i], finer = i == 0 ? 4 : i == 1 ? 2 : 1;
    fv_synthetic_under(m, "neck.reassemble_stage.layers.%u.", i);
    fv_synthetic_linear(m, "projection.", channels, s->width, 1, 1);
    if (finer > 1) {
        fv_synthetic_deconv(m, "resize.", channels, channels, finer, channels);
        fv_synthetic_bias(m, "resize.", channels);
    } else if (i == LEVELS - 1) {
        fv_synthetic_linear(m, "resize.", channels, channels, 3, 1);
    }
    fv_synthetic_under(m, "neck.convs.%u.", i);
    fv_synthetic_matrix(m, "", s->fusion, channels, 3, 1);
    fv_synthetic_under(m, "neck.fusion_stage.layers.%u.", i);
    fv_synthetic_linear(m, "projection.", s->fusion, s->fusion, 1, 1);
    for (uint32_t k = 0; k < 4; k++) {
        fv_synthetic_under(m, "neck.fusion_stage.layers.%u.residual_layer%u.convolution%u.", i,
                           k / 2 + 1, k % 2 + 1);
        if (biased)
            fv_synthetic_linear(m, "", s->fusion, s->fusion, 3, 0.5f);
        else
            fv_synthetic_matrix(m, "", s->fusion, s->fusion, 3, 0.5f);
    }
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    fv_vit_spec backbone = {.kind = FV_VIT_DINOV2,
                            .root = "backbone.",
                            .width = s->width,
                            .depth = s->depth,
                            .heads = s->heads,
                            .hidden = 4 * s->width,
                            .patch = 14,
                            .image = 518};
    fv_vit_synthetic_encoder(m, &backbone);
    for (uint32_t i = 0; i < LEVELS; i++)
        level(m, s, i, true);
    fv_synthetic_under(m, "head.");
    fv_synthetic_linear(m, "conv1.", s->fusion / 2, s->fusion, 3, 1);
    fv_synthetic_linear(m, "conv2.", HEAD, s->fusion / 2, 3, 1);
    fv_synthetic_linear(m, "conv3.", 1, HEAD, 1, 1);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:o, s:o*}", "model_type", "depth_anything",
        "depth_estimation_type", "relative", "fusion_hidden_size", (int)s->fusion,
        "head_hidden_size", HEAD, "reassemble_hidden_size", (int)s->width, "neck_hidden_sizes",
        fv_synthetic_four(s->channels), "backbone_config",
        fv_synthetic_join(fv_vit_synthetic_config(&backbone, "dinov2"),
                          json_pack("{s:o}", "out_indices", fv_synthetic_four(s->tap))));
}

const fv_synthetic_list fv_depth_anything_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};

static json_t *make_dpt(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    fv_vit_spec backbone = {.kind = s->plain ? FV_VIT_PLAIN : FV_VIT_DINOV2,
                            .root = s->plain ? "dpt." : "backbone.",
                            .width = s->width,
                            .depth = s->depth,
                            .heads = s->heads,
                            .hidden = 4 * s->width,
                            .patch = s->plain ? 16 : 14,
                            .image = s->plain ? 384 : 518};
    fv_vit_synthetic_encoder(m, &backbone);
    for (uint32_t i = 0; i < LEVELS; i++) {
        level(m, s, i, s->plain);
        fv_synthetic_under(m, "neck.reassemble_stage.readout_projects.%u.0.", i);
        fv_synthetic_linear(m, "", s->width, 2 * s->width, 1, 1);
    }
    fv_synthetic_under(m, "head.");
    if (!s->plain)
        fv_synthetic_linear(m, "projection.", s->fusion, s->fusion, 3, 1);
    fv_synthetic_linear(m, "head.0.", s->fusion / 2, s->fusion, 3, 1);
    fv_synthetic_linear(m, "head.2.", HEAD, s->fusion / 2, 3, 1);
    fv_synthetic_linear(m, "head.4.", 1, HEAD, 1, 1);
    json_t *own = json_pack("{s:s, s:b, s:i, s:o}", "model_type", "dpt", "add_projection",
                            !s->plain, "fusion_hidden_size", (int)s->fusion, "neck_hidden_sizes",
                            fv_synthetic_four(s->channels));
    json_t *encoder = fv_vit_synthetic_config(&backbone, s->plain ? "dpt" : "dinov2");
    if (s->plain)
        return fv_synthetic_join(encoder,
                                 fv_synthetic_join(own, json_pack("{s:o}", "backbone_out_indices",
                                                                  fv_synthetic_four(s->tap))));
    return fv_synthetic_join(
        own, json_pack("{s:o*}", "backbone_config",
                       fv_synthetic_join(encoder, json_pack("{s:o, s:b}", "out_indices",
                                                            fv_synthetic_four(s->tap),
                                                            "apply_layernorm", 0))));
}

const fv_synthetic_list fv_dpt_synthetics = {FV_SYNTHETIC_SIZES(dpt_sizes), .make = make_dpt};
