/* vitpose_synthetic.c: makes ViTPose checkpoints of the published sizes with random weights and 17
 * key points. */
#include "models/dense/vitpose.h"
#include "models/vit/vit_synthetic.h"

enum { POINTS = 17, CHANNELS = 256 };

static const struct size {
    const char *name;
    uint32_t width, depth, heads;
    bool simple;
} sizes[] = {
    {"vitpose-s-simple", 384, 12, 12, true}, {"vitpose-s", 384, 12, 12, false},
    {"vitpose-b-simple", 768, 12, 12, true}, {"vitpose-b", 768, 12, 12, false},
    {"vitpose-l", 1024, 24, 16, false},      {"vitpose-h", 1280, 32, 16, false},
};

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    fv_vit_spec backbone = {.kind = FV_VIT_POSE,
                            .root = "backbone.",
                            .width = s->width,
                            .depth = s->depth,
                            .heads = s->heads,
                            .hidden = 4 * s->width,
                            .patch = 16,
                            .image = 256,
                            .image_width = 192};
    fv_vit_synthetic_encoder(m, &backbone);
    fv_synthetic_under(m, "head.");
    if (s->simple) {
        fv_synthetic_linear(m, "conv.", POINTS, s->width, 3, 1);
    } else {
        fv_synthetic_deconv(m, "deconv1.", s->width, CHANNELS, 4, 4 * s->width);
        fv_synthetic_batchnorm(m, "batchnorm1.", CHANNELS, 0.1f);
        fv_synthetic_deconv(m, "deconv2.", CHANNELS, CHANNELS, 4, 4 * CHANNELS);
        fv_synthetic_batchnorm(m, "batchnorm2.", CHANNELS, 0.1f);
        fv_synthetic_linear(m, "conv.", POINTS, CHANNELS, 1, 1);
    }
    return json_pack("{s:s, s:b, s:i, s:o*}", "model_type", "vitpose", "use_simple_decoder",
                     s->simple, "scale_factor", 4, "backbone_config",
                     fv_synthetic_join(fv_vit_synthetic_config(&backbone, "vitpose_backbone"),
                                       json_pack("{s:[i]}", "out_indices", (int)s->depth)));
}

const fv_synthetic_list fv_vitpose_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
