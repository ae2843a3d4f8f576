/* decoder_synthetic.c: makes necks and heads of the published sizes with random weights, on
 * synthetic backbones. */
#include "models/dense/decoder_synthetic.h"

#include <string.h>

#include "base/num.h"
#include "models/dense/mask2former.h"

#define STAGES 4
#define NECK 256     /* channels of an FPN */
#define SEMANTIC 128 /* channels of Semantic FPN's head */
#define UPER 512     /* channels of UperNet's head */
#define SEGMENTS 150 /* classes of ADE20K */
#define BOXES 80     /* classes of COCO */
#define ANCHORS 9
#define STACKED 4

static const char *const endings[] = {"-fpn",         "-upernet",   "-retinanet",
                                      "-mask2former", "-mask-rcnn", "-cascade-rcnn"};
enum { FPN, UPERNET, RETINANET, MASK2FORMER, MASK_RCNN, CASCADE_RCNN, KINDS };

bool fv_decoder_has_synthetic(const char *ending)
{
    return fv_index_of(ending, endings, KINDS) >= 0;
}

const char *fv_decoder_synthetic_root(const char *ending)
{
    return fv_index_of(ending, endings, KINDS) == MASK2FORMER ? fv_head_mask2former.backbone : "";
}

/* ---- tensors ---- */

/* Adds a module: a convolution, batch normalisation and ReLU. */
static void module(fv_synthetic *m, uint32_t rows, uint32_t channels, uint32_t size)
{
    fv_synthetic_matrix(m, "conv.", rows, channels, size, 1.4f);
    fv_synthetic_batchnorm(m, "bn.", rows, 0.035f);
}

static void neck(fv_synthetic *m, int kind, const uint32_t width[STAGES])
{
    const uint32_t first = kind == RETINANET ? 1 : 0, laterals = STAGES - first;
    const uint32_t outs = kind == RETINANET ? laterals + 2 : laterals;
    for (uint32_t i = 0; i < laterals; i++) {
        fv_synthetic_under(m, "neck.lateral_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", NECK, width[first + i], 1, 1);
    }
    for (uint32_t i = 0; i < outs; i++) {
        fv_synthetic_under(m, "neck.fpn_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", NECK, i == laterals ? width[STAGES - 1] : NECK, 3, 1);
    }
}

static void semantic_fpn(fv_synthetic *m)
{
    for (uint32_t i = 0; i < STAGES; i++)
        for (uint32_t k = 0; k < (i ? i : 1); k++) {
            fv_synthetic_under(m, "decode_head.scale_heads.%u.%u.", i, 2 * k);
            module(m, SEMANTIC, k ? SEMANTIC : NECK, 3);
        }
    fv_synthetic_under(m, "decode_head.");
    fv_synthetic_linear(m, "conv_seg.", SEGMENTS, SEMANTIC, 1, 1);
}

static void uper_net(fv_synthetic *m, const uint32_t width[STAGES])
{
    const uint32_t top = width[STAGES - 1];
    for (uint32_t i = 0; i < 4; i++) {
        fv_synthetic_under(m, "decode_head.psp_modules.%u.1.", i);
        module(m, UPER, top, 1);
    }
    for (uint32_t i = 0; i + 1 < STAGES; i++) {
        fv_synthetic_under(m, "decode_head.lateral_convs.%u.", i);
        module(m, UPER, width[i], 1);
        fv_synthetic_under(m, "decode_head.fpn_convs.%u.", i);
        module(m, UPER, UPER, 3);
    }
    fv_synthetic_under(m, "decode_head.bottleneck.");
    module(m, UPER, top + 4 * UPER, 3);
    fv_synthetic_under(m, "decode_head.fpn_bottleneck.");
    module(m, UPER, STAGES * UPER, 3);
    fv_synthetic_under(m, "decode_head.");
    fv_synthetic_linear(m, "conv_seg.", SEGMENTS, UPER, 1, 1);
}

static void retina_net(fv_synthetic *m)
{
    for (uint32_t i = 0; i < STACKED; i++) {
        fv_synthetic_under(m, "bbox_head.cls_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", NECK, NECK, 3, 1.4f);
        fv_synthetic_under(m, "bbox_head.reg_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", NECK, NECK, 3, 1.4f);
    }
    fv_synthetic_under(m, "bbox_head.");
    fv_synthetic_matrix(m, "retina_cls.", ANCHORS * BOXES, NECK, 3, 1);
    /* As at the start of training, each class has a probability of 1 in 100. */
    fv_synthetic_vector(m, "retina_cls.bias", ANCHORS * BOXES, -4.6f, 0.035f);
    fv_synthetic_linear(m, "retina_reg.", ANCHORS * 4, NECK, 3, 0.2f);
}

/* ---- config.json ---- */

static json_t *neck_config(int kind, const uint32_t width[STAGES])
{
    json_t *c =
        json_pack("{s:s, s:o, s:i, s:i}", "type", "FPN", "in_channels", fv_synthetic_four(width),
                  "out_channels", NECK, "num_outs", kind >= RETINANET ? 5 : STAGES);
    if (kind == RETINANET) {
        json_object_set_new(c, "start_level", json_integer(1));
        json_object_set_new(c, "add_extra_convs", json_string("on_input"));
    }
    return c;
}

static json_t *head_config(int kind, const uint32_t width[STAGES])
{
    static const uint32_t of_neck[STAGES] = {NECK, NECK, NECK, NECK};
    if (kind == RETINANET)
        return json_pack("{s:s, s:i, s:i, s:i, s:i}", "type", "RetinaHead", "num_classes", BOXES,
                         "in_channels", NECK, "stacked_convs", STACKED, "feat_channels", NECK);
    json_t *c = json_pack("{s:s, s:o, s:[i, i, i, i], s:i, s:i}", "type",
                          kind == FPN ? "FPNHead" : "UPerHead", "in_channels",
                          fv_synthetic_four(kind == FPN ? of_neck : width), "in_index", 0, 1, 2, 3,
                          "channels", kind == FPN ? SEMANTIC : UPER, "num_classes", SEGMENTS);
    if (kind == FPN)
        json_object_set_new(c, "feature_strides", json_pack("[i, i, i, i]", 4, 8, 16, 32));
    return c;
}

json_t *fv_decoder_synthetic(fv_synthetic *m, const uint32_t width[STAGES])
{
    const int kind = fv_index_of(m->ending, endings, KINDS);
    m->root = "";
    if (kind == MASK2FORMER) {
        fv_mask2former_synthetic(m, width);
        return json_pack("{s:[s, s, s, s]}", "out_features", "stage1", "stage2", "stage3",
                         "stage4");
    }
    if (kind == UPERNET)
        uper_net(m, width);
    else
        neck(m, kind, width);
    if (kind == FPN)
        semantic_fpn(m);
    if (kind == RETINANET)
        retina_net(m);
    if (kind >= MASK_RCNN) {
        fv_mask_rcnn_synthetic(m, kind == CASCADE_RCNN, NECK);
        return fv_synthetic_join(json_pack("{s:o}", "neck", neck_config(kind, width)),
                                 fv_mask_rcnn_synthetic_config(kind == CASCADE_RCNN, NECK));
    }
    return json_pack("{s:o*, s:o}", "neck", kind == UPERNET ? NULL : neck_config(kind, width),
                     kind == RETINANET ? "bbox_head" : "decode_head", head_config(kind, width));
}

json_t *fv_decoder_synthetic_whole(const char *ending, json_t *config)
{
    const bool section = fv_index_of(ending, endings, KINDS) == MASK2FORMER;
    return section ? fv_mask2former_synthetic_config(config) : config;
}
