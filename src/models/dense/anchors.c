/* anchors.c: reads how mmdetection's heads make boxes: anchors, the numbers by which boxes are
 * moved and scaled, non-maximum suppression. */
#include <math.h>

#include "models/dense/decoder.h"

static const char anchor_fields[] =
    "octave_base_scale ratios scale_major=true scales scales_per_octave strides "
    "type=AnchorGenerator";

static const char coder_fields[] =
    "add_ctr_clamp=false clip_border ctr_clamp target_means target_stds type=DeltaXYWHBBoxCoder";

/* "split_thr" affects only mmdetection's implementation. */
static const char nms_fields[] = "class_agnostic=false iou_threshold split_thr type=nms";

/* ---- anchors ---- */

#define SCALES 16
#define RATIOS 16

struct shapes {
    uint32_t ratios, scales;
    float ratio[RATIOS], scale[SCALES];
};

/* Reads "scales". If it is absent, computes the scales of an octave from "octave_base_scale" and
 * "scales_per_octave". */
static fovea_status read_scales(struct shapes *s, const fv_config *c)
{
    float base = 4;
    s->scales = 3;
    if (c->object && fv_config_get(c, "scales")) {
        if (fv_config_get(c, "octave_base_scale") || fv_config_get(c, "scales_per_octave"))
            return fv_config_fail(
                c, "scales",
                "absent, because \"octave_base_scale\" and \"scales_per_octave\" are given");
        FV_TRY(fv_config_count(&s->scales, c, "scales", SCALES));
        return fv_config_floats(s->scale, s->scales, c, "scales", 1e-3, 1e6);
    }
    if (c->object) {
        FV_TRY(fv_config_float(&base, c, "octave_base_scale", 1e-3, 1e6));
        FV_TRY(fv_config_u32(&s->scales, c, "scales_per_octave", 1, SCALES));
    }
    for (uint32_t i = 0; i < s->scales; i++)
        s->scale[i] = (float)(pow(2, (double)i / s->scales) * (double)base);
    return FOVEA_OK;
}

static fovea_status read_ratios(struct shapes *s, const fv_config *c)
{
    static const float usual[] = {0.5f, 1, 2};
    for (s->ratios = 0; s->ratios < 3; s->ratios++)
        s->ratio[s->ratios] = usual[s->ratios];
    if (!c->object || !fv_config_get(c, "ratios"))
        return FOVEA_OK;
    FV_TRY(fv_config_count(&s->ratios, c, "ratios", RATIOS));
    return fv_config_floats(s->ratio, s->ratios, c, "ratios", 1e-3, 1e3);
}

static fovea_status read_strides(fv_detection *d, const fv_config *c)
{
    uint32_t stride[FV_LEVELS];
    for (uint32_t i = 0; i < d->levels; i++)
        stride[i] = 8u << i;
    if (c->object)
        FV_TRY(fv_config_u32s(stride, d->levels, c, "strides", 1, 1u << 20));
    for (uint32_t i = 0; i < d->levels; i++)
        d->stride[i] = (float)stride[i];
    return FOVEA_OK;
}

/* Computes the anchors of a cell in float32, as mmdetection does: for each ratio, all scales. */
static void make_anchors(fv_detection *d, const struct shapes *s)
{
    d->anchors = s->ratios * s->scales;
    for (uint32_t l = 0; l < d->levels; l++)
        for (uint32_t i = 0; i < d->anchors; i++) {
            const float ratio = sqrtf(s->ratio[i / s->scales]), scale = s->scale[i % s->scales];
            const float w = d->stride[l] * (1.f / ratio) * scale;
            const float h = d->stride[l] * ratio * scale;
            float *anchor = d->anchor[l][i];
            anchor[0] = -0.5f * w;
            anchor[1] = -0.5f * h;
            anchor[2] = 0.5f * w;
            anchor[3] = 0.5f * h;
        }
}

fovea_status fv_detection_read_anchors(fv_detection *d, const fv_decoder_reader *r,
                                       const fv_config *head, const char *name)
{
    fv_config c;
    struct shapes s;
    FV_TRY(fv_decoder_section(&c, r, head, "anchor_generator", name, anchor_fields));
    FV_TRY(read_scales(&s, &c));
    FV_TRY(read_ratios(&s, &c));
    FV_TRY(read_strides(d, &c));
    if (s.ratios * s.scales > FV_ANCHORS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"%s\" has %u ratios with %u scales each; at most %u anchors are "
                       "supported",
                       c.file, name, s.ratios, s.scales, FV_ANCHORS);
    make_anchors(d, &s);
    return FOVEA_OK;
}

/* ---- boxes ---- */

fovea_status fv_detection_read_coder(fv_detection *d, const fv_decoder_reader *r,
                                     const fv_config *head, const char *name)
{
    fv_config c;
    for (int i = 0; i < 4; i++)
        d->std[i] = 1;
    d->clip = true;
    FV_TRY(fv_decoder_section(&c, r, head, "bbox_coder", name, coder_fields));
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(fv_config_floats(d->mean, 4, &c, "target_means", -1e3, 1e3));
    FV_TRY(fv_config_floats(d->std, 4, &c, "target_stds", 1e-6, 1e3));
    return fv_config_bool(&d->clip, &c, "clip_border");
}

fovea_status fv_detection_read_nms(float *threshold, const fv_decoder_reader *r,
                                   const fv_config *test, const char *name)
{
    fv_config nms;
    FV_TRY(fv_decoder_section(&nms, r, test, "nms", name, nms_fields));
    return nms.object ? fv_config_float(threshold, &nms, "iou_threshold", 0, 1) : FOVEA_OK;
}

fovea_status fv_detection_check_scores(const fv_config *head, const char *name, bool sigmoid)
{
    fv_config loss;
    bool given = sigmoid;
    FV_TRY(fv_config_section(&loss, head, "loss_cls"));
    loss.section = name;
    if (loss.object)
        FV_TRY(fv_config_bool(&given, &loss, "use_sigmoid"));
    return given == sigmoid ? FOVEA_OK
                            : fv_config_fail(&loss, "use_sigmoid", sigmoid ? "true" : "false");
}
