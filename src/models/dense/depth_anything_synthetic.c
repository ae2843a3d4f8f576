/* depth_anything_synthetic.c: Depth Anything of the published sizes with random weights. */
#include <stdio.h>
#include <string.h>

#include "models/dense/depth_anything.h"
#include "models/synthetic.h"

enum { LEVELS = 4, HEAD = 32 };

static const struct spec {
    const char *name;
    uint32_t width, depth, heads, tap[LEVELS], channels[LEVELS], fusion;
} specs[] = {
    {"depth-anything-s", 384, 12, 6, {3, 6, 9, 12}, {48, 96, 192, 384}, 64},
    {"depth-anything-b", 768, 12, 12, {3, 6, 9, 12}, {96, 192, 384, 768}, 128},
    {"depth-anything-l", 1024, 24, 16, {5, 12, 18, 24}, {256, 512, 1024, 1024}, 256},
};

const char *fv_depth_anything_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void unit(fv_synthetic *m, const char *prefix, const char *name, uint32_t width)
{
    char stem[48];
    for (int i = 1; i <= 2; i++) {
        snprintf(stem, sizeof stem, "%s.convolution%d.", name, i);
        fv_synthetic_linear(m, prefix, stem, width, width, 3, 0.5f);
    }
}

static void level(fv_synthetic *m, const struct spec *s, uint32_t i)
{
    const uint32_t channels = s->channels[i], finer = i == 0 ? 4 : i == 1 ? 2 : 1;
    char p[64];
    snprintf(p, sizeof p, "neck.reassemble_stage.layers.%u.", i);
    fv_synthetic_linear(m, p, "projection.", channels, s->width, 1, 1);
    if (finer > 1) {
        fv_synthetic_deconv(m, p, "resize.", channels, channels, finer, channels);
        fv_synthetic_bias(m, p, "resize.", channels);
    } else if (i == LEVELS - 1) {
        fv_synthetic_linear(m, p, "resize.", channels, channels, 3, 1);
    }
    snprintf(p, sizeof p, "neck.convs.%u.", i);
    fv_synthetic_matrix(m, "", p, s->fusion, channels, 3, 1);
    snprintf(p, sizeof p, "neck.fusion_stage.layers.%u.", i);
    fv_synthetic_linear(m, p, "projection.", s->fusion, s->fusion, 1, 1);
    unit(m, p, "residual_layer1", s->fusion);
    unit(m, p, "residual_layer2", s->fusion);
}

static json_t *describe(const struct spec *s, const fv_backbone_spec *backbone)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o*}", "model_type", "depth_anything",
                     "depth_estimation_type", "relative", "fusion_hidden_size", (int)s->fusion,
                     "head_hidden_size", HEAD, "reassemble_hidden_size", (int)s->width,
                     "neck_hidden_sizes", fv_synthetic_list(s->channels), "backbone_config",
                     fv_backbone_describe(backbone));
}

fovea_status fv_depth_anything_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    fv_backbone_spec backbone = {.width = s->width,
                                 .depth = s->depth,
                                 .heads = s->heads,
                                 .ratio = 4,
                                 .patch = 14,
                                 .image_width = 518,
                                 .image_height = 518,
                                 .dinov2 = true,
                                 .n_taps = LEVELS};
    memcpy(backbone.taps, s->tap, sizeof s->tap);
    fv_backbone_synthetic(&m, &backbone);
    for (uint32_t i = 0; i < LEVELS; i++)
        level(&m, s, i);
    fv_synthetic_linear(&m, "head.", "conv1.", s->fusion / 2, s->fusion, 3, 1);
    fv_synthetic_linear(&m, "head.", "conv2.", HEAD, s->fusion / 2, 3, 1);
    fv_synthetic_linear(&m, "head.", "conv3.", 1, HEAD, 1, 1);
    return fv_synthetic_end(config, name, m.status, describe(s, &backbone));
}
