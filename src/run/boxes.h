/* boxes.h: makes boxes of a detector's outputs, in the caller's memory. */
#ifndef FOVEA_SRC_RUN_BOXES_H
#define FOVEA_SRC_RUN_BOXES_H

#include <fovea/results.h>

#include "models/detection.h"

/* The outputs of a level: `cls` has (anchors x classes) logits, `box` (anchors x 4) numbers per
 * cell of the grid, a row for each cell. A model with queries has one level, with a row for each
 * query. */
typedef struct fv_box_level {
    const float *cls, *box;
    uint32_t width, height; /* places */
} fv_box_level;

/* The boxes of a picture of width x height pixels, best first, as mmdetection finds them:
 *
 *   of every level the nms_pre best pairs of an anchor and a class whose score, the sigmoid of the
 *   logit, is above score_thr;  their boxes, anchors moved and scaled by the four numbers;  of
 * these in the order of their scores those that overlap no better one of the same class by more
 * than iou_threshold, max_per_img at most
 *
 * or, of queries, as DETR's post-processing does: the nms_pre best pairs of a query and a class
 * whose score is above score_thr, with the queries' boxes.
 *
 * Equal scores go by level, place and class, so that the order is the same everywhere. Scores that
 * are NaN count as below the threshold; boxes that are not finite, or have a negative side, are
 * left out. Boxes without width or height overlap nothing. Returns the number of boxes, of which at
 * most `capacity` are written. `scratch` has levels * nms_pre elements. Allocates nothing. */
size_t fv_boxes_find(const fv_detection *d, const fv_box_level *level, float width, float height,
                     fv_candidate *scratch, fovea_detection *out, size_t capacity);

/* Decodes the box of an anchor of a level; `place` numbers the level's anchors. False: the numbers
 * are not a valid box, or it is too small. */
bool fv_boxes_decode(float box[4], const fv_detection *d, uint32_t level, uint32_t grid_width,
                     uint32_t place, const float number[4], float width, float height);
/* Intersection over union of two boxes; 0 if both are empty. */
double fv_boxes_overlap(const float a[4], const float b[4]);

#endif
