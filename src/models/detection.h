/* detection.h: how boxes are decoded from a detector's outputs: its anchors, and the thresholds by
 * which boxes are kept. */
#ifndef FOVEA_SRC_MODELS_DETECTION_H
#define FOVEA_SRC_MODELS_DETECTION_H

#include <stdbool.h>
#include <stdint.h>

struct fv_graph;

#define FV_LEVELS 16u  /* of a neck or head, at most */
#define FV_ANCHORS 32u /* of a place, at most */

/* Boxes of anchors: mmdetection's AnchorGenerator, DeltaXYWHBBoxCoder and test_cfg. Output "cls.i"
 * has for every place of level i the logits of all classes, anchor after anchor, "box.i" four
 * numbers for each anchor.
 *
 * Boxes of queries, as DETR has them: one level and one anchor of it. Output "logits" has a row of
 * all classes for every query, "pred_boxes" the centre, width and height of its box as shares of
 * the picture. nms_pre and max_per_img are equal; there is no suppression. */
typedef struct fv_detection {
    uint32_t levels, anchors, classes;
    bool of_queries;
    float stride[FV_LEVELS];                /* pixels from place to place */
    float anchor[FV_LEVELS][FV_ANCHORS][4]; /* x1 y1 x2 y2 at the first place */
    float mean[4], std[4];                  /* of the four numbers */
    bool clip;                              /* boxes end where the picture does */
    uint32_t nms_pre;                       /* best of every level that are looked at */
    float score_thr, iou_threshold;
    float min_size; /* boxes whose sides are not above it are dropped; negative: none are */
    uint32_t max_per_img;
} fv_detection;

/* A box that may be kept. */
typedef struct fv_candidate {
    float logit, score;
    float box[4];
    uint32_t level, place, label; /* place: an anchor of the level, cell by cell */
} fv_candidate;

/* 32-bit words that the candidates of a picture take. */
static inline uint32_t fv_detection_scratch(const fv_detection *d)
{
    return d->levels * d->nms_pre * (uint32_t)(sizeof(fv_candidate) / sizeof(uint32_t));
}

/* The output with the logits of a level, or with its boxes. */
typedef struct fv_detection_name {
    char text[24];
} fv_detection_name;
fv_detection_name fv_detection_logits(const fv_detection *d, uint32_t level);
fv_detection_name fv_detection_boxes(const fv_detection *d, uint32_t level);

/* Whether a plan has all outputs that boxes are decoded from. */
bool fv_detection_wanted(const fv_detection *d, const struct fv_graph *g);

#endif
