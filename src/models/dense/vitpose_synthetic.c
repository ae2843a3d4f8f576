/* vitpose_synthetic.c: ViTPose of the published sizes with random weights: 17 key points. */
#include <stdio.h>
#include <string.h>

#include "models/dense/vitpose.h"
#include "models/synthetic.h"

enum { POINTS = 17, CHANNELS = 256 };

static const struct spec {
    const char *name;
    uint32_t width, depth, heads;
    bool simple;
} specs[] = {
    {"vitpose-s-simple", 384, 12, 12, true}, {"vitpose-s", 384, 12, 12, false},
    {"vitpose-b-simple", 768, 12, 12, true}, {"vitpose-b", 768, 12, 12, false},
    {"vitpose-l", 1024, 24, 16, false},      {"vitpose-h", 1280, 32, 16, false},
};

const char *fv_vitpose_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void deconv(fv_synthetic *m, uint32_t i, uint32_t from)
{
    const uint64_t n = CHANNELS;
    char stem[24], norm[24], name[48];
    snprintf(stem, sizeof stem, "deconv%u.", i);
    snprintf(norm, sizeof norm, "batchnorm%u.", i);
    fv_synthetic_deconv(m, "head.", stem, from, CHANNELS, 4, 4 * from);
    fv_synthetic_norm(m, "head.", norm, CHANNELS);
    snprintf(name, sizeof name, "%srunning_mean", norm);
    fv_synthetic_tensor(m, "head.", name, 1, &n, 0, 0.1f);
    snprintf(name, sizeof name, "%srunning_var", norm);
    fv_synthetic_tensor(m, "head.", name, 1, &n, 1, 0.1f);
}

fovea_status fv_vitpose_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    const fv_backbone_spec backbone = {.width = s->width,
                                       .depth = s->depth,
                                       .heads = s->heads,
                                       .ratio = 4,
                                       .patch = 16,
                                       .image_width = 192,
                                       .image_height = 256,
                                       .taps = {s->depth},
                                       .n_taps = 1};
    fv_backbone_synthetic(&m, &backbone);
    if (s->simple) {
        fv_synthetic_linear(&m, "head.", "conv.", POINTS, s->width, 3, 1);
    } else {
        deconv(&m, 1, s->width);
        deconv(&m, 2, CHANNELS);
        fv_synthetic_linear(&m, "head.", "conv.", POINTS, CHANNELS, 1, 1);
    }
    return fv_synthetic_end(config, name, m.status,
                            json_pack("{s:s, s:b, s:i, s:o*}", "model_type", "vitpose",
                                      "use_simple_decoder", s->simple, "scale_factor", 4,
                                      "backbone_config", fv_backbone_describe(&backbone)));
}
