/* detection.h: describes how boxes are decoded from a detector's outputs: its anchors, and the
 * thresholds by which boxes are kept. */
#ifndef FOVEA_SRC_MODELS_DETECTION_H
#define FOVEA_SRC_MODELS_DETECTION_H

#include <stdbool.h>
#include <stdint.h>

struct fv_graph;

#define FV_LEVELS 16u  /* largest number of levels of a neck or head */
#define FV_ANCHORS 32u /* largest number of anchors of a cell */

/* With anchors, as in mmdetection's AnchorGenerator, DeltaXYWHBBoxCoder and test_cfg: for every
 * cell of level i, output "cls.i" contains the logits of all classes, anchor after anchor, and
 * "box.i" contains four numbers per anchor.
 *
 * With queries, as in DETR: there are one level and one anchor. For every query, output "logits"
 * contains a row with the logits of all classes. "pred_boxes" contains the centre, width and height
 * of its box as fractions of the picture's size. nms_pre and max_per_img are equal, and there is no
 * suppression.
 *
 * With regions, as in mmdetection's R-CNNs: the model itself suppresses boxes, and outputs those
 * that are left, best first. "pred_scores" contains the score and the class of each, of which -1
 * means that there is no box, and "pred_boxes" its x1, y1, x2, y2 in pixels of the picture. There
 * are one level and one anchor, and nms_pre and max_per_img are equal. */
typedef struct fv_detection {
    uint32_t levels, anchors, classes;
    bool of_queries, of_regions;
    /* With queries: one more logit means that there is no object. Scores are a softmax, and a query
     * has one box, of its best class (YOLOS). */
    bool nothing;
    uint32_t mask_size;                     /* regions: cells along a side of a box's mask, or 0 */
    float stride[FV_LEVELS];                /* pixels between adjacent cells */
    float anchor[FV_LEVELS][FV_ANCHORS][4]; /* x1, y1, x2, y2 of the first cell's anchors */
    float mean[4], std[4]; /* mean and standard deviation of each of the four numbers of a box */
    bool clip;             /* boxes are clipped to the picture */
    uint32_t nms_pre;      /* number of boxes per level that are considered, the best ones */
    float score_thr, iou_threshold;
    float min_size; /* boxes with a side of at most this length are dropped; negative to keep all */
    uint32_t max_per_img;
} fv_detection;

/* A candidate for a kept box. */
typedef struct fv_box_candidate {
    float logit, score;
    float box[4];
    uint32_t level, place, label; /* place: index of the anchor in its level, cell by cell */
} fv_box_candidate;

/* Returns the size of the memory for a picture's candidates, in 32-bit words. */
static inline uint32_t fv_detection_scratch(const fv_detection *d)
{
    return d->levels * d->nms_pre * (uint32_t)(sizeof(fv_box_candidate) / sizeof(uint32_t));
}

/* Name of the output with the logits or boxes of a level. */
typedef struct fv_detection_name {
    char text[24];
} fv_detection_name;
fv_detection_name fv_detection_logits(const fv_detection *d, uint32_t level);
fv_detection_name fv_detection_boxes(const fv_detection *d, uint32_t level);

/* Returns whether a plan has all outputs that boxes are decoded from. */
bool fv_detection_wanted(const fv_detection *d, const struct fv_graph *g);

#endif
