/* retina_net.c: RetinaHead of mmdetection: the same convolutions on every level, and the settings
 * by which boxes are decoded from their outputs.
 *
 *     cls.i = 3x3 convolution of stacked 3x3 convolutions of level i; box.i likewise */
#include <stdio.h>

#include "models/dense/decoder.h"

/* ---- fields ---- */

static const char fields[] =
    "anchor_generator bbox_coder conv_cfg={} feat_channels in_channels init_cfg loss_bbox "
    "loss_cls norm_cfg num_classes reg_decoded_bbox=false stacked_convs test_cfg train_cfg "
    "type=RetinaHead";

static const char test_fields[] = "iou_threshold max_per_img min_bbox_size nms nms_pre score_thr";

/* ---- what is kept ---- */

#define MOST 16384 /* most boxes that are considered, or kept */

static fovea_status read_test(fv_detection *d, const fv_decoder_reader *r, const fv_config *head)
{
    const bool own = fv_config_get(head, "test_cfg") != NULL;
    const char *name = own ? "bbox_head.test_cfg" : "test_cfg";
    const char *nms_name = own ? "bbox_head.test_cfg.nms" : "test_cfg.nms";
    fv_config c;
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
    return fv_detection_read_nms(&d->iou_threshold, r, &c, nms_name);
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
    FV_TRY(fv_detection_check_scores(head, "bbox_head.loss_cls", true));
    d->levels = r->levels;
    FV_TRY(fv_detection_read_anchors(d, r, head, "bbox_head.anchor_generator"));
    FV_TRY(fv_detection_read_coder(d, r, head, "bbox_head.bbox_coder"));
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
