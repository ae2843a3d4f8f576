/* mask_rcnn_synthetic.c: makes the heads of Mask R-CNN and Cascade Mask R-CNN with random weights,
 * in the sizes that MAViT's and PolaFormer's authors train. */
#include <stdio.h>

#include "models/dense/decoder.h"
#include "models/dense/decoder_synthetic.h"

#define CLASSES 80 /* of COCO */
#define ANCHORS 3
#define CONVS 4 /* of masks and, with several stages, of boxes */
#define LINEAR 1024
#define CELLS 7
#define RELU 1.4f /* keeps the size of values after a ReLU */

/* ---- tensors ---- */

static void proposals(fv_synthetic *m, uint32_t width)
{
    fv_synthetic_under(m, "%s", "rpn_head.");
    fv_synthetic_linear(m, "rpn_conv.", width, width, 3, RELU);
    fv_synthetic_linear(m, "rpn_cls.", ANCHORS, width, 1, 1);
    fv_synthetic_linear(m, "rpn_reg.", 4 * ANCHORS, width, 1, 0.3f);
}

static void box_stage(fv_synthetic *m, const char *stem, uint32_t width, bool convolved)
{
    for (uint32_t i = 0; convolved && i < CONVS; i++) {
        fv_synthetic_under(m, "%sshared_convs.%u.", stem, i);
        fv_synthetic_matrix(m, "conv.", width, width, 3, RELU);
        fv_synthetic_batchnorm(m, "bn.", width, 0.035f);
    }
    for (uint32_t i = 0; i < (convolved ? 1 : 2); i++) {
        fv_synthetic_under(m, "%sshared_fcs.%u.", stem, i);
        fv_synthetic_linear(m, "", LINEAR, i ? LINEAR : CELLS * CELLS * width, 1, RELU);
    }
    fv_synthetic_under(m, "%s", stem);
    fv_synthetic_linear(m, "fc_cls.", CLASSES + 1, LINEAR, 1, 3);
    fv_synthetic_linear(m, "fc_reg.", 4 * CLASSES, LINEAR, 1, 0.5f);
}

static void mask_stage(fv_synthetic *m, const char *stem, uint32_t width)
{
    for (uint32_t i = 0; i < CONVS; i++) {
        fv_synthetic_under(m, "%sconvs.%u.conv.", stem, i);
        fv_synthetic_linear(m, "", width, width, 3, RELU);
    }
    fv_synthetic_under(m, "%s", stem);
    fv_synthetic_deconv(m, "upsample.", width, width, 2, width);
    fv_synthetic_bias(m, "upsample.", width);
    fv_synthetic_linear(m, "conv_logits.", CLASSES, width, 1, 1);
}

void fv_mask_rcnn_synthetic(fv_synthetic *m, bool cascade, uint32_t width)
{
    char stem[40];
    proposals(m, width);
    for (uint32_t i = 0; i < (cascade ? FV_REGION_STAGES : 1); i++) {
        snprintf(stem, sizeof stem, cascade ? "roi_head.bbox_head.%u." : "roi_head.bbox_head.", i);
        box_stage(m, stem, width, cascade);
        snprintf(stem, sizeof stem, cascade ? "roi_head.mask_head.%u." : "roi_head.mask_head.", i);
        mask_stage(m, stem, width);
    }
}

/* ---- config.json ---- */

static json_t *extractor(uint32_t size, uint32_t width)
{
    return json_pack("{s:s, s:{s:s, s:i, s:i}, s:i, s:[i, i, i, i]}", "type", "SingleRoIExtractor",
                     "roi_layer", "type", "RoIAlign", "output_size", (int)size, "sampling_ratio", 0,
                     "out_channels", (int)width, "featmap_strides", 4, 8, 16, 32);
}

/* Stages of a cascade expect ever smaller changes. */
static json_t *box_config(uint32_t width, bool cascade, uint32_t stage)
{
    static const double std[FV_REGION_STAGES][2] = {{0.1, 0.2}, {0.05, 0.1}, {0.033, 0.067}};
    json_t *c = json_pack("{s:s, s:i, s:i, s:i, s:i, s:{s:s, s:[f, f, f, f], s:[f, f, f, f]}, s:b}",
                          "type", cascade ? "ConvFCBBoxHead" : "Shared2FCBBoxHead", "in_channels",
                          (int)width, "fc_out_channels", LINEAR, "roi_feat_size", CELLS,
                          "num_classes", CLASSES, "bbox_coder", "type", "DeltaXYWHBBoxCoder",
                          "target_means", 0., 0., 0., 0., "target_stds", std[stage][0],
                          std[stage][0], std[stage][1], std[stage][1], "reg_class_agnostic", 0);
    if (cascade) {
        json_object_set_new(c, "num_shared_convs", json_integer(CONVS));
        json_object_set_new(c, "num_shared_fcs", json_integer(1));
        json_object_set_new(c, "conv_out_channels", json_integer((int)width));
        json_object_set_new(c, "norm_cfg", json_pack("{s:s}", "type", "SyncBN"));
    }
    return c;
}

static json_t *box_configs(uint32_t width)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < FV_REGION_STAGES; i++)
        json_array_append_new(list, box_config(width, true, i));
    return list;
}

json_t *fv_mask_rcnn_synthetic_config(bool cascade, uint32_t width)
{
    json_t *c = json_pack("{s:{s:s, s:i, s:i, s:{s:s, s:[i], s:[f, f, f], s:[i, i, i, i, i]}}, "
                          "s:{s:s, s:o, s:o, s:o, "
                          "s:{s:s, s:i, s:i, s:i, s:i}}}",
                          "rpn_head", "type", "RPNHead", "in_channels", (int)width, "feat_channels",
                          (int)width, "anchor_generator", "type", "AnchorGenerator", "scales", 8,
                          "ratios", 0.5, 1., 2., "strides", 4, 8, 16, 32, 64, "roi_head", "type",
                          cascade ? "CascadeRoIHead" : "StandardRoIHead", "bbox_roi_extractor",
                          extractor(CELLS, width), "bbox_head",
                          cascade ? box_configs(width) : box_config(width, false, 0),
                          "mask_roi_extractor", extractor(2 * CELLS, width), "mask_head", "type",
                          "FCNMaskHead", "num_convs", CONVS, "in_channels", (int)width,
                          "conv_out_channels", (int)width, "num_classes", CLASSES);
    if (cascade)
        json_object_set_new(json_object_get(c, "roi_head"), "num_stages",
                            json_integer(FV_REGION_STAGES));
    return c;
}
