/* mask_rcnn_read.c: reads the heads of mmdetection's Mask R-CNN and Cascade Mask R-CNN: RPNHead,
 * and StandardRoIHead or CascadeRoIHead. Without a mask_head they are Faster R-CNN and Cascade
 * R-CNN. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "models/dense/decoder.h"
#include "models/fold.h"
#include "ops/contracts/regions.h"

/* ---- fields ---- */

static const char rpn_fields[] =
    "anchor_generator bbox_coder conv_cfg={} feat_channels in_channels init_cfg loss_bbox loss_cls "
    "norm_cfg={} num_classes num_convs reg_decoded_bbox test_cfg train_cfg type=RPNHead";

static const char roi_fields[] =
    "bbox_head bbox_roi_extractor init_cfg mask_head mask_roi_extractor num_stages pretrained={} "
    "shared_head={} stage_loss_weights test_cfg train_cfg type";

static const char box_fields[] =
    "bbox_coder conv_cfg={} conv_out_channels fc_out_channels in_channels init_cfg loss_bbox "
    "loss_cls norm_cfg num_classes num_cls_convs num_cls_fcs num_reg_convs num_reg_fcs "
    "num_shared_convs num_shared_fcs reg_class_agnostic reg_decoded_bbox roi_feat_size type "
    "with_avg_pool=false with_cls=true with_reg=true";

static const char mask_fields[] =
    "class_agnostic conv_cfg={} conv_kernel_size conv_out_channels in_channels init_cfg loss_mask "
    "norm_cfg num_classes num_convs roi_feat_size type=FCNMaskHead upsample_cfg";

static const char extractor_fields[] =
    "featmap_strides finest_scale out_channels roi_layer type=SingleRoIExtractor";
static const char layer_fields[] =
    "aligned=true output_size pool_mode=avg sampling_ratio type=RoIAlign use_torchvision=false";
static const char upsample_fields[] = "scale_factor type=deconv";
static const char rpn_test_fields[] = "max_per_img min_bbox_size nms nms_pre";
static const char test_fields[] = "mask_thr_binary max_per_img nms score_thr";

#define PROPOSALS_MOST 16384
#define BOXES_MOST 4096
#define SIZE_MOST 64 /* cells along a side of a region */

typedef struct region_reader {
    fv_decoder_reader *r;
    const fv_config *roi;
    fv_mask_rcnn *n;
    uint32_t channels; /* of the levels */
} region_reader;

/* Returns FOVEA_ENOTSUP unless a field is absent or has this value. */
static fovea_status require(const fv_config *c, const char *key, float value)
{
    float given = value;
    FV_TRY(fv_config_float(&given, c, key, -1e6, 1e6));
    return given == value ? FOVEA_OK
                          : fv_fail(FOVEA_ENOTSUP, "%s: \"%s.%s\" is %g; only %g is supported",
                                    c->file, c->section, key, (double)given, (double)value);
}

/* ---- the head for proposals ---- */

/* Gets the section of test_cfg for one of the two heads. */
static fovea_status test_section(fv_config *out, const fv_decoder_reader *r, const char *key,
                                 const char *name, const char *list)
{
    fv_config all;
    FV_TRY(fv_decoder_section(&all, r, r->config, "test_cfg", "test_cfg", "rcnn rpn"));
    if (!all.object) {
        *out = all;
        return FOVEA_OK;
    }
    return fv_decoder_section(out, r, &all, key, name, list);
}

static fovea_status read_proposal_test(fv_detection *d, const fv_decoder_reader *r)
{
    fv_config c;
    d->nms_pre = d->max_per_img = 1000;
    d->iou_threshold = 0.7f;
    d->min_size = 0;
    FV_TRY(test_section(&c, r, "rpn", "test_cfg.rpn", rpn_test_fields));
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(fv_config_u32(&d->nms_pre, &c, "nms_pre", 1, PROPOSALS_MOST));
    FV_TRY(fv_config_u32(&d->max_per_img, &c, "max_per_img", 1, PROPOSALS_MOST));
    FV_TRY(fv_config_float(&d->min_size, &c, "min_bbox_size", -1, 1e6));
    return fv_detection_read_nms(&d->iou_threshold, r, &c, "test_cfg.rpn.nms");
}

static fovea_status check_clip(const fv_config *head, const char *name, const fv_detection *d)
{
    return d->clip ? FOVEA_OK
                   : fv_fail(FOVEA_ENOTSUP,
                             "%s: \"%s.clip_border\" is false; regions can only be clipped to the "
                             "picture: set it to true",
                             head->file, name);
}

static fovea_status read_proposals(region_reader *p)
{
    fv_decoder_reader *r = p->r;
    fv_detection *d = &p->n->proposals;
    fv_config head;
    uint32_t in = 0, width = 256;
    FV_TRY(fv_decoder_section(&head, r, r->config, "rpn_head", "rpn_head", rpn_fields));
    if (!head.object)
        return fv_config_fail(r->config, "rpn_head", "given, because \"roi_head\" needs proposals");
    FV_TRY(require(&head, "num_classes", 1));
    FV_TRY(require(&head, "num_convs", 1));
    if (!fv_config_get(&head, "anchor_generator"))
        return fv_config_fail(&head, "anchor_generator", "given");
    FV_TRY(fv_config_u32(&in, &head, "in_channels", 1, FV_DECODER_WIDTH));
    FV_TRY(fv_config_u32(&width, &head, "feat_channels", 1, FV_DECODER_WIDTH));
    for (uint32_t i = 0; i < r->levels; i++)
        if (r->channels[i] != in)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"rpn_head.in_channels\" is %u, but level %u has %u channels",
                           head.file, in, i, r->channels[i]);
    p->channels = in;
    d->levels = r->levels;
    d->classes = 1;
    FV_TRY(fv_detection_check_scores(&head, "rpn_head.loss_cls", true));
    FV_TRY(fv_detection_read_anchors(d, r, &head, "rpn_head.anchor_generator"));
    FV_TRY(fv_detection_read_coder(d, r, &head, "rpn_head.bbox_coder"));
    FV_TRY(check_clip(&head, "rpn_head.bbox_coder", d));
    FV_TRY(read_proposal_test(d, r));
    p->n->conv.act = FV_EPI_RELU;
    FV_TRY(fv_conv_plain_read(&p->n->conv, &r->t, "rpn_head.rpn_conv.", width, in, 3));
    FV_TRY(fv_conv_plain_read(&p->n->cls, &r->t, "rpn_head.rpn_cls.", d->anchors, width, 1));
    FV_TRY(fv_conv_plain_read(&p->n->box, &r->t, "rpn_head.rpn_reg.", 4 * d->anchors, width, 1));
    return fv_reader_all_used(&r->t, "rpn_head.");
}

/* ---- regions ---- */

/* Gets the section of stage i: the section itself, or item i of a list with one for each stage. */
static fovea_status stage_section(fv_config *out, const region_reader *p, const char *key,
                                  const char *name, uint32_t i, const char *list)
{
    json_t *value = fv_config_get(p->roi, key);
    *out = (fv_config){p->roi->file, name, value};
    if (json_is_array(value) && json_array_size(value) == p->n->boxes)
        out->object = json_array_get(value, i);
    if (!json_is_object(out->object))
        return fv_config_fail(p->roi, key, "an object, or a list with an object for each stage");
    return fv_fields_check_section(out, p->r->config, list);
}

static fovea_status read_features(fv_region_features *f, const region_reader *p, const char *key,
                                  const char *const names[2], uint32_t size)
{
    fv_config c, layer;
    uint32_t stride[FV_ROI_LEVELS], width = p->channels;
    FV_TRY(stage_section(&c, p, key, names[0], 0, extractor_fields));
    FV_TRY(fv_config_count(&f->levels, &c, "featmap_strides", FV_ROI_LEVELS));
    FV_TRY(fv_config_u32s(stride, f->levels, &c, "featmap_strides", 1, 1u << 20));
    if (f->levels > p->r->levels)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"%s.featmap_strides\" has %u levels, but the neck has %u", c.file,
                       names[0], f->levels, p->r->levels);
    for (uint32_t i = 0; i < f->levels; i++)
        f->stride[i] = (float)stride[i];
    FV_TRY(fv_config_u32(&width, &c, "out_channels", 1, FV_DECODER_WIDTH));
    if (width != p->channels)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"%s.out_channels\" is %u, but the levels have %u channels", c.file,
                       names[0], width, p->channels);
    f->finest_scale = 56;
    f->size = size;
    FV_TRY(fv_config_float(&f->finest_scale, &c, "finest_scale", 1e-3, 1e6));
    FV_TRY(fv_decoder_section(&layer, p->r, &c, "roi_layer", names[1], layer_fields));
    if (!layer.object)
        return FOVEA_OK;
    FV_TRY(require(&layer, "sampling_ratio", 0));
    return fv_config_u32(&f->size, &layer, "output_size", 1, SIZE_MOST);
}

/* Reads a convolution of regions. Group normalisation would be over the cells of each region. */
static fovea_status read_conv(fv_conv_module *c, const region_reader *p, const char *name,
                              uint32_t rows, uint32_t channels)
{
    FV_TRY(fv_conv_module_read(c, p->r, name, rows, channels, 3, FV_EPI_RELU));
    return c->groups == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOTSUP,
                         "%s: \"%s\" has group normalisation, which is supported only on "
                         "whole levels; use a head with batch normalisation or none",
                         p->r->t.source->name, name);
}

/* Checks that a field of a head is `n`, if it is given. */
static fovea_status check_count(const fv_config *c, const char *key, uint32_t n, const char *what)
{
    uint32_t given = n;
    FV_TRY(fv_config_u32(&given, c, key, 1, FV_DECODER_WIDTH));
    return given == n ? FOVEA_OK
                      : fv_fail(FOVEA_EFORMAT, "%s: \"%s.%s\" is %u, but %s %u", c->file,
                                c->section, key, given, what, n);
}

/* ---- boxes ---- */

/* Sets the numbers of shared layers by the head's type. */
static fovea_status read_shared(fv_box_stage *s, const fv_config *c)
{
    static const char *const types[] = {"Shared2FCBBoxHead", "Shared4Conv1FCBBoxHead",
                                        "ConvFCBBoxHead"};
    const char *type = NULL;
    FV_TRY(fv_config_text(&type, c, "type"));
    const int kind = type ? fv_index_of(type, types, 3) : -1;
    if (kind < 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"%s.type\" is \"%.40s\"; only Shared2FCBBoxHead, "
                       "Shared4Conv1FCBBoxHead and ConvFCBBoxHead are supported",
                       c->file, c->section, type ? type : "");
    s->convs = kind == 1 ? 4 : 0;
    s->layers = kind == 0 ? 2 : kind == 1;
    FV_TRY(fv_config_u32(&s->convs, c, "num_shared_convs", 0, FV_REGION_CONVS));
    return fv_config_u32(&s->layers, c, "num_shared_fcs", 1, FV_REGION_CONVS);
}

/* Reads the first linear layer, whose columns are (channel, cell) in the file, and (cell, channel)
 * for CONV. */
static fovea_status read_first(fv_layer *l, fv_tensor_reader *t, const char *stem, uint32_t rows,
                               uint32_t channels, uint32_t cells)
{
    l->w = (fv_weight){.rows = rows, .cols = channels * cells};
    FV_TRY(fv_reader_part(
        &l->w, t, "", stem, "weight",
        (fv_weight_part){.rows = rows, .cols = channels * cells, .taps = cells > 1 ? cells : 0}));
    return fv_reader_matrix(&l->b, t, "", stem, "bias", 1, rows);
}

static fovea_status read_box_layers(region_reader *p, fv_box_stage *s, const fv_config *c,
                                    const char *stem)
{
    const uint32_t cells = p->n->box_features.size * p->n->box_features.size;
    const uint32_t classes = p->r->d->detection.classes;
    uint32_t width = p->channels, convolved = 256, linear = 1024;
    char name[64];
    FV_TRY(fv_config_u32(&convolved, c, "conv_out_channels", 1, FV_DECODER_WIDTH));
    FV_TRY(fv_config_u32(&linear, c, "fc_out_channels", 1, FV_DECODER_WIDTH));
    for (uint32_t i = 0; i < s->convs; i++, width = convolved) {
        snprintf(name, sizeof name, "%sshared_convs.%u.", stem, i);
        FV_TRY(read_conv(&s->conv[i], p, name, convolved, width));
    }
    for (uint32_t i = 0; i < s->layers; i++, width = linear) {
        snprintf(name, sizeof name, "%sshared_fcs.%u.", stem, i);
        FV_TRY(read_first(&s->layer[i], &p->r->t, name, linear, width, i == 0 ? cells : 1));
    }
    snprintf(name, sizeof name, "%sfc_cls.", stem);
    FV_TRY(fv_reader_linear(&s->cls, &p->r->t, "", name, classes + 1, width));
    snprintf(name, sizeof name, "%sfc_reg.", stem);
    return fv_reader_linear(&s->box, &p->r->t, "", name, s->agnostic ? 4 : 4 * classes, width);
}

static fovea_status read_box_stage(region_reader *p, uint32_t i, bool list)
{
    static const char *const names[2] = {"roi_head.bbox_head.norm_cfg",
                                         "roi_head.bbox_head.act_cfg"};
    static const char head_name[] = "roi_head.bbox_head";
    static const char *const none[] = {"num_cls_convs", "num_cls_fcs", "num_reg_convs",
                                       "num_reg_fcs"};
    fv_detection *d = &p->r->d->detection, coder = {0};
    fv_box_stage *s = &p->n->box_stage[i];
    fv_config c;
    uint32_t classes;
    char stem[40];
    FV_TRY(stage_section(&c, p, "bbox_head", head_name, i, box_fields));
    for (int k = 0; k < 4; k++)
        FV_TRY(require(&c, none[k], 0));
    FV_TRY(fv_decoder_classes(&classes, &c));
    if (i > 0 && classes != d->classes)
        return fv_fail(FOVEA_EFORMAT, "%s: the stages of \"%s\" have %u and %u classes", c.file,
                       head_name, d->classes, classes);
    d->classes = classes;
    FV_TRY(check_count(&c, "in_channels", p->channels, "the levels have"));
    FV_TRY(check_count(&c, "roi_feat_size", p->n->box_features.size, "\"output_size\" is"));
    FV_TRY(fv_decoder_check_convs(p->r, &c, names, false));
    FV_TRY(fv_detection_check_scores(&c, "roi_head.bbox_head.loss_cls", false));
    FV_TRY(fv_config_bool(&s->agnostic, &c, "reg_class_agnostic"));
    memcpy(coder.std, (const float[]){0.1f, 0.1f, 0.2f, 0.2f}, sizeof coder.std);
    coder.clip = true;
    if (fv_config_get(&c, "bbox_coder"))
        FV_TRY(fv_detection_read_coder(&coder, p->r, &c, "roi_head.bbox_head.bbox_coder"));
    FV_TRY(check_clip(&c, "roi_head.bbox_head.bbox_coder", &coder));
    memcpy(s->mean, coder.mean, sizeof s->mean);
    memcpy(s->std, coder.std, sizeof s->std);
    FV_TRY(read_shared(s, &c));
    if (list)
        snprintf(stem, sizeof stem, "roi_head.bbox_head.%u.", i);
    else
        snprintf(stem, sizeof stem, "roi_head.bbox_head.");
    return read_box_layers(p, s, &c, stem);
}

static fovea_status read_test(fv_detection *d, const fv_decoder_reader *r)
{
    fv_config c;
    d->max_per_img = 100;
    d->score_thr = 0.05f;
    d->iou_threshold = 0.5f;
    FV_TRY(test_section(&c, r, "rcnn", "test_cfg.rcnn", test_fields));
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(require(&c, "mask_thr_binary", 0.5f));
    FV_TRY(fv_config_u32(&d->max_per_img, &c, "max_per_img", 1, BOXES_MOST));
    FV_TRY(fv_config_float(&d->score_thr, &c, "score_thr", 0, 1));
    return fv_detection_read_nms(&d->iou_threshold, r, &c, "test_cfg.rcnn.nms");
}

/* ---- masks ---- */

static fovea_status read_mask_stage(region_reader *p, uint32_t i, bool list)
{
    static const char *const names[2] = {"roi_head.mask_head.norm_cfg",
                                         "roi_head.mask_head.act_cfg"};
    const uint32_t all = p->r->d->detection.classes;
    fv_mask_stage *s = &p->n->mask_stage[i];
    fv_config c, upsample;
    uint32_t width = 256, from = p->channels, classes;
    bool agnostic = false;
    char name[64], stem[40];
    FV_TRY(stage_section(&c, p, "mask_head", "roi_head.mask_head", i, mask_fields));
    FV_TRY(check_count(&c, "in_channels", p->channels, "the levels have"));
    FV_TRY(fv_decoder_classes(&classes, &c));
    FV_TRY(check_count(&c, "num_classes", all, "the boxes have"));
    FV_TRY(fv_decoder_check_convs(p->r, &c, names, false));
    FV_TRY(fv_decoder_section(&upsample, p->r, &c, "upsample_cfg",
                              "roi_head.mask_head.upsample_cfg", upsample_fields));
    FV_TRY(require(&c, "conv_kernel_size", 3));
    if (upsample.object)
        FV_TRY(require(&upsample, "scale_factor", 2));
    FV_TRY(fv_config_bool(&agnostic, &c, "class_agnostic"));
    FV_TRY(fv_config_u32(&width, &c, "conv_out_channels", 1, FV_DECODER_WIDTH));
    s->convs = 4;
    FV_TRY(fv_config_u32(&s->convs, &c, "num_convs", 0, FV_REGION_CONVS));
    if (list)
        snprintf(stem, sizeof stem, "roi_head.mask_head.%u.", i);
    else
        snprintf(stem, sizeof stem, "roi_head.mask_head.");
    for (uint32_t k = 0; k < s->convs; k++, from = width) {
        snprintf(name, sizeof name, "%sconvs.%u.", stem, k);
        FV_TRY(read_conv(&s->conv[k], p, name, width, from));
    }
    snprintf(name, sizeof name, "%supsample.", stem);
    FV_TRY(fv_fold_transposed(
        &s->enlarge, &p->r->t, "",
        &(fv_fold_deconv){.stem = name, .channels = from, .rows = width, .stride = 2}));
    snprintf(name, sizeof name, "%sconv_logits.", stem);
    return fv_reader_linear(&s->logits, &p->r->t, "", name, agnostic ? 1 : all, width);
}

static fovea_status read_masks(region_reader *p, bool list)
{
    static const char *const names[2] = {"roi_head.mask_roi_extractor",
                                         "roi_head.mask_roi_extractor.roi_layer"};
    if (!fv_config_get(p->roi, "mask_head"))
        return FOVEA_OK;
    if (!fv_config_get(p->roi, "mask_roi_extractor"))
        return fv_config_fail(p->roi, "mask_roi_extractor",
                              "given, because masks with the features of boxes are not supported");
    FV_TRY(read_features(&p->n->mask_features, p, "mask_roi_extractor", names, 14));
    p->n->masks = p->n->boxes;
    for (uint32_t i = 0; i < p->n->masks; i++)
        FV_TRY(read_mask_stage(p, i, list));
    p->r->d->detection.mask_size = 2 * p->n->mask_features.size;
    p->r->t.m->info.masks = p->r->d->detection.max_per_img;
    return FOVEA_OK;
}

/* ---- all of it ---- */

fovea_status fv_mask_rcnn_read(fv_decoder_reader *r, const fv_config *head)
{
    static const char *const names[2] = {"roi_head.bbox_roi_extractor",
                                         "roi_head.bbox_roi_extractor.roi_layer"};
    const bool cascade = r->d->head == &fv_head_cascade_rcnn;
    fv_detection *d = &r->d->detection;
    region_reader p = {.r = r, .roi = head, .n = &r->d->regions};
    FV_TRY(fv_fields_check_section(head, r->config, roi_fields));
    p.n->boxes = cascade ? FV_REGION_STAGES : 1;
    if (cascade)
        FV_TRY(fv_config_u32(&p.n->boxes, head, "num_stages", 1, FV_REGION_STAGES));
    FV_TRY(read_proposals(&p));
    FV_TRY(read_features(&p.n->box_features, &p, "bbox_roi_extractor", names, 7));
    for (uint32_t i = 0; i < p.n->boxes; i++)
        FV_TRY(read_box_stage(&p, i, cascade));
    FV_TRY(read_test(d, r));
    FV_TRY(read_masks(&p, cascade));
    d->of_regions = true;
    d->levels = d->anchors = 1;
    d->nms_pre = d->max_per_img;
    r->t.m->detection = d;
    r->t.m->info.boxes = d->max_per_img;
    return FOVEA_OK;
}
