/* decoder_synthetic.c: necks and heads of the published sizes with random weights, on synthetic
 * backbones. A name such as "mavit-t-fpn" is a backbone's, followed by that of the neck or head. */
#include <stdio.h>
#include <string.h>

#include "models/dense/decoder.h"
#include "models/dense/decoder_synthetic.h"

#define STAGES 4
#define NECK 256     /* channels of an FPN */
#define SEMANTIC 128 /* of Semantic FPN's head */
#define UPER 512     /* of UperNet's */
#define SEGMENTS 150 /* classes of ADE20K */
#define BOXES 80     /* classes of COCO */
#define ANCHORS 9
#define STACKED 4

static const struct {
    const char *suffix;
    uint32_t first; /* stage that the neck reads */
} kinds[] = {{"-fpn", 0}, {"-upernet", 0}, {"-retinanet", 1}};
enum { NONE = -1, FPN, UPERNET, RETINANET, KINDS };

int fv_decoder_suffix(size_t *base, const char *name)
{
    *base = strlen(name);
    for (int i = 0; i < KINDS; i++)
        if (fv_ends_with(name, kinds[i].suffix)) {
            *base -= strlen(kinds[i].suffix);
            return i;
        }
    return NONE;
}

bool fv_decoder_has_synthetic(const char *(*backbones)(size_t), const char *name)
{
    size_t base;
    const bool ends = fv_decoder_suffix(&base, name) != NONE;
    const char *own;
    for (size_t i = 0; ends && (own = backbones(i)); i++)
        if (strlen(own) == base && strncmp(own, name, base) == 0)
            return true;
    return false;
}

/* ---- tensors ---- */

/* Convolution, batch normalisation, ReLU. */
static void module(fv_synthetic *m, const char *name, uint32_t rows, uint32_t channels,
                   uint32_t size)
{
    char part[64];
    const uint64_t n = rows;
    snprintf(part, sizeof part, "%sconv.", name);
    fv_synthetic_matrix(m, "", part, rows, channels, size, 1.4f);
    fv_synthetic_norm(m, name, "bn.", rows);
    fv_synthetic_tensor(m, name, "bn.running_mean", 1, &n, 0, 0.035f);
    fv_synthetic_tensor(m, name, "bn.running_var", 1, &n, 1, 0.1f);
}

static void neck(fv_synthetic *m, int kind, const uint32_t width[STAGES])
{
    const uint32_t first = kinds[kind].first, laterals = STAGES - first;
    const uint32_t outs = kind == RETINANET ? laterals + 2 : laterals;
    char name[48];
    for (uint32_t i = 0; i < laterals; i++) {
        snprintf(name, sizeof name, "neck.lateral_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", name, NECK, width[first + i], 1, 1);
    }
    for (uint32_t i = 0; i < outs; i++) {
        snprintf(name, sizeof name, "neck.fpn_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", name, NECK, i == laterals ? width[STAGES - 1] : NECK, 3, 1);
    }
}

static void semantic_fpn(fv_synthetic *m)
{
    char name[48];
    for (uint32_t i = 0; i < STAGES; i++)
        for (uint32_t k = 0; k < (i ? i : 1); k++) {
            snprintf(name, sizeof name, "decode_head.scale_heads.%u.%u.", i, 2 * k);
            module(m, name, SEMANTIC, k ? SEMANTIC : NECK, 3);
        }
    fv_synthetic_linear(m, "", "decode_head.conv_seg.", SEGMENTS, SEMANTIC, 1, 1);
}

static void uper_net(fv_synthetic *m, const uint32_t width[STAGES])
{
    const uint32_t top = width[STAGES - 1];
    char name[48];
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "decode_head.psp_modules.%u.1.", i);
        module(m, name, UPER, top, 1);
    }
    module(m, "decode_head.bottleneck.", UPER, top + 4 * UPER, 3);
    for (uint32_t i = 0; i + 1 < STAGES; i++) {
        snprintf(name, sizeof name, "decode_head.lateral_convs.%u.", i);
        module(m, name, UPER, width[i], 1);
        snprintf(name, sizeof name, "decode_head.fpn_convs.%u.", i);
        module(m, name, UPER, UPER, 3);
    }
    module(m, "decode_head.fpn_bottleneck.", UPER, STAGES * UPER, 3);
    fv_synthetic_linear(m, "", "decode_head.conv_seg.", SEGMENTS, UPER, 1, 1);
}

static void retina_net(fv_synthetic *m)
{
    const uint64_t logits = ANCHORS * BOXES;
    char name[48];
    for (uint32_t i = 0; i < STACKED; i++) {
        snprintf(name, sizeof name, "bbox_head.cls_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", name, NECK, NECK, 3, 1.4f);
        snprintf(name, sizeof name, "bbox_head.reg_convs.%u.conv.", i);
        fv_synthetic_linear(m, "", name, NECK, NECK, 3, 1.4f);
    }
    fv_synthetic_matrix(m, "", "bbox_head.retina_cls.", ANCHORS * BOXES, NECK, 3, 1);
    /* As at the start of training: each class has a probability of 1 in 100. */
    fv_synthetic_tensor(m, "", "bbox_head.retina_cls.bias", 1, &logits, -4.6f, 0.035f);
    fv_synthetic_linear(m, "", "bbox_head.retina_reg.", ANCHORS * 4, NECK, 3, 0.2f);
}

void fv_decoder_synthetic_tensors(fv_synthetic *m, int kind, const uint32_t width[STAGES])
{
    if (kind != UPERNET)
        neck(m, kind, width);
    if (kind == FPN)
        semantic_fpn(m);
    else if (kind == UPERNET)
        uper_net(m, width);
    else
        retina_net(m);
}

/* ---- config.json ---- */

static json_t *neck_config(int kind, const uint32_t width[STAGES])
{
    json_t *c =
        json_pack("{s:s, s:o, s:i, s:i}", "type", "FPN", "in_channels", fv_synthetic_list(width),
                  "out_channels", NECK, "num_outs", kind == RETINANET ? 5 : STAGES);
    if (kind == RETINANET) {
        json_object_set_new(c, "start_level", json_integer(kinds[kind].first));
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
                          fv_synthetic_list(kind == FPN ? of_neck : width), "in_index", 0, 1, 2, 3,
                          "channels", kind == FPN ? SEMANTIC : UPER, "num_classes", SEGMENTS);
    if (kind == FPN)
        json_object_set_new(c, "feature_strides", json_pack("[i, i, i, i]", 4, 8, 16, 32));
    return c;
}

void fv_decoder_synthetic_config(json_t *config, int kind, const uint32_t width[STAGES])
{
    if (kind != UPERNET)
        json_object_set_new(config, "neck", neck_config(kind, width));
    json_object_set_new(config, kind == RETINANET ? "bbox_head" : "decode_head",
                        head_config(kind, width));
}
