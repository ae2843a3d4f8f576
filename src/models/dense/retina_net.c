/* retina_net.c: RetinaHead of mmdetection: the same convolutions on every level, and the settings
 * by which boxes are decoded from their outputs.
 *
 *     cls.i = 3x3 convolution of stacked 3x3 convolutions of level i; box.i likewise */
#include <math.h>
#include <stdio.h>

#include "models/dense/decoder.h"

/* ---- fields ---- */

static const char fields[] =
    "anchor_generator bbox_coder conv_cfg={} feat_channels in_channels init_cfg loss_bbox "
    "loss_cls norm_cfg num_classes reg_decoded_bbox=false stacked_convs test_cfg train_cfg "
    "type=RetinaHead";

static const char anchor_fields[] =
    "octave_base_scale ratios scale_major=true scales scales_per_octave strides "
    "type=AnchorGenerator";

static const char coder_fields[] =
    "add_ctr_clamp=false clip_border ctr_clamp target_means target_stds type=DeltaXYWHBBoxCoder";

static const char test_fields[] = "iou_threshold max_per_img min_bbox_size nms nms_pre score_thr";

/* "split_thr" affects only mmdetection's implementation. */
static const char nms_fields[] = "class_agnostic=false iou_threshold split_thr type=nms";

/* ---- anchors ---- */

#define SCALES 16
#define RATIOS 16
#define MOST 16384 /* most boxes that are considered, or kept */

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

static fovea_status read_anchors(fv_detection *d, const fv_decoder_reader *r, const fv_config *head)
{
    fv_config c;
    struct shapes s;
    FV_TRY(fv_decoder_section(&c, r, head, "anchor_generator", "bbox_head.anchor_generator",
                              anchor_fields));
    FV_TRY(read_scales(&s, &c));
    FV_TRY(read_ratios(&s, &c));
    FV_TRY(read_strides(d, &c));
    if (s.ratios * s.scales > FV_ANCHORS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"bbox_head.anchor_generator\" has %u ratios with %u scales each; at "
                       "most %u anchors "
                       "are supported",
                       c.file, s.ratios, s.scales, FV_ANCHORS);
    make_anchors(d, &s);
    return FOVEA_OK;
}

/* ---- what is kept ---- */

static fovea_status read_coder(fv_detection *d, const fv_decoder_reader *r, const fv_config *head)
{
    fv_config c;
    for (int i = 0; i < 4; i++)
        d->std[i] = 1;
    d->clip = true;
    FV_TRY(fv_decoder_section(&c, r, head, "bbox_coder", "bbox_head.bbox_coder", coder_fields));
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(fv_config_floats(d->mean, 4, &c, "target_means", -1e3, 1e3));
    FV_TRY(fv_config_floats(d->std, 4, &c, "target_stds", 1e-6, 1e3));
    return fv_config_bool(&d->clip, &c, "clip_border");
}

static fovea_status read_test(fv_detection *d, const fv_decoder_reader *r, const fv_config *head)
{
    const bool own = fv_config_get(head, "test_cfg") != NULL;
    const char *name = own ? "bbox_head.test_cfg" : "test_cfg";
    const char *nms_name = own ? "bbox_head.test_cfg.nms" : "test_cfg.nms";
    fv_config c, nms;
    d->nms_pre = 1000;
    d->score_thr = 0.05f;
    d->iou_threshold = 0.5f;
    d->min_size = -1;
    d->max_per_img = 100;
    FV_TRY(fv_decoder_section(&c, r, own ? head : r->config, "test_cfg", name, test_fields));
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(fv_config_u32(&d->nms_pre, &c, "nms_pre", 1, MOST));
    FV_TRY(fv_config_u32(&d->max_per_img, &c, "max_per_img", 1, MOST));
    FV_TRY(fv_config_float(&d->score_thr, &c, "score_thr", 0, 1));
    FV_TRY(fv_config_float(&d->min_size, &c, "min_bbox_size", -1, 1e6));
    FV_TRY(fv_config_float(&d->iou_threshold, &c, "iou_threshold", 0, 1));
    FV_TRY(fv_decoder_section(&nms, r, &c, "nms", nms_name, nms_fields));
    return nms.object ? fv_config_float(&d->iou_threshold, &nms, "iou_threshold", 0, 1) : FOVEA_OK;
}

/* Checks that the loss uses a sigmoid per class; softmax would have an additional output. */
static fovea_status check_loss(const fv_config *head)
{
    fv_config loss;
    bool sigmoid = true;
    FV_TRY(fv_config_section(&loss, head, "loss_cls"));
    loss.section = "bbox_head.loss_cls";
    if (loss.object)
        FV_TRY(fv_config_bool(&sigmoid, &loss, "use_sigmoid"));
    return sigmoid ? FOVEA_OK : fv_config_fail(&loss, "use_sigmoid", "true");
}

/* ---- reading ---- */

static fovea_status read_convs(fv_retina_net *n, fv_decoder_reader *r, const fv_config *head)
{
    const fv_detection *d = &r->d->detection;
    uint32_t in = 0, channels = 256;
    char name[48];
    n->stacked = 4;
    FV_TRY(fv_config_u32(&n->stacked, head, "stacked_convs", 0, FV_STACKED));
    FV_TRY(fv_config_u32(&channels, head, "feat_channels", 1, FV_DECODER_WIDTH));
    FV_TRY(fv_config_u32(&in, head, "in_channels", 1, FV_DECODER_WIDTH));
    for (uint32_t i = 0; i < r->levels; i++)
        if (r->channels[i] != in)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"bbox_head.in_channels\" is %u, but level %u has %u channels",
                           head->file, in, i, r->channels[i]);
    for (uint32_t i = 0; i < n->stacked; i++) {
        const uint32_t from = i ? channels : in;
        snprintf(name, sizeof name, "bbox_head.cls_convs.%u.", i);
        FV_TRY(fv_conv_module_read(&n->cls[i], r, name, channels, from, 3, FV_EPI_RELU));
        snprintf(name, sizeof name, "bbox_head.reg_convs.%u.", i);
        FV_TRY(fv_conv_module_read(&n->box[i], r, name, channels, from, 3, FV_EPI_RELU));
    }
    const uint32_t last = n->stacked ? channels : in;
    FV_TRY(fv_conv_plain_read(&n->to_cls, &r->t, "bbox_head.retina_cls.", d->anchors * d->classes,
                              last, 3));
    return fv_conv_plain_read(&n->to_box, &r->t, "bbox_head.retina_reg.", d->anchors * 4, last, 3);
}

static fovea_status read_head(fv_decoder_reader *r, const fv_config *head)
{
    static const char *const names[2] = {"bbox_head.norm_cfg", "bbox_head.act_cfg"};
    fv_detection *d = &r->d->detection;
    FV_TRY(fv_fields_check_section(head, r->config, fields));
    FV_TRY(fv_decoder_check_convs(r, head, names, false));
    FV_TRY(fv_decoder_classes(&d->classes, head));
    FV_TRY(check_loss(head));
    d->levels = r->levels;
    FV_TRY(read_anchors(d, r, head));
    FV_TRY(read_coder(d, r, head));
    FV_TRY(read_test(d, r, head));
    r->t.m->detection = d;
    r->t.m->info.boxes = d->max_per_img;
    return read_convs(&r->d->retina, r, head);
}

/* ---- computing ---- */

/* Emits output "box.<i>" or "cls.<i>" of a level. */
static void tower(const fv_retina_net *n, fv_builder *b, fovea_output_kind kind, uint32_t i,
                  const fv_level *level, const fv_conv_module *stacked, const fv_conv_module *last)
{
    char name[32], label[56];
    snprintf(name, sizeof name, "%s.%u", kind == FOVEA_OUTPUT_BOXES ? "box" : "cls", i);
    const fv_view out = fv_emit_task_output(b, name, kind, fv_grid_tokens(&level->grid),
                                            last->l.w.rows, &level->grid, false);
    if (out.id < 0)
        return;
    fv_level x = *level;
    for (uint32_t k = 0; k < n->stacked; k++) {
        snprintf(label, sizeof label, "%s conv %u", name, k);
        x = fv_conv_module_emit(b, label, &stacked[k], &x, 1);
    }
    fv_conv_module_write(b, name, last, &x, 1, out);
}

static void emit(const fv_decoder *d, fv_builder *b, const fv_level *level)
{
    const fv_retina_net *n = &d->retina;
    for (uint32_t i = 0; i < d->detection.levels; i++) {
        const fv_level in = fv_feature_pyramid_level(b, &level[i]);
        tower(n, b, FOVEA_OUTPUT_BOX_CLASSES, i, &in, n->cls, &n->to_cls);
        tower(n, b, FOVEA_OUTPUT_BOXES, i, &in, n->box, &n->to_box);
    }
}

const fv_decoder_head fv_head_retina_net = {.type = "RetinaHead",
                                            .section = "bbox_head",
                                            .last = "bbox_head.retina_cls.",
                                            .read = read_head,
                                            .emit = emit};
