/* boxes.h: makes boxes from a detector's outputs, in the caller's memory. */
#ifndef FOVEA_SRC_RUN_BOXES_H
#define FOVEA_SRC_RUN_BOXES_H

#include <fovea/results.h>

#include "models/detection.h"

struct fovea_plan;

/* The outputs of a level, with a row for each cell of the grid: `cls` has (anchors x classes)
 * logits and `box` has (anchors x 4) numbers. A model with queries has one level, with a row for
 * each query. */
typedef struct fv_box_level {
    const float *cls, *box;
    uint32_t width, height; /* size of the grid in cells */
} fv_box_level;

/* Finds the boxes of a picture of width x height pixels, in descending order of scores. For
 * anchors, as mmdetection does: of every level, it takes the nms_pre best pairs of an anchor and a
 * class whose score, the sigmoid of the logit, is above score_thr. Their boxes are the anchors,
 * moved and scaled by the four numbers. In the order of scores, it keeps those that overlap no
 * better box of the same class by more than iou_threshold, at most max_per_img. For queries, as
 * DETR's post-processing does: it takes the nms_pre best pairs of a query and a class whose score
 * is above score_thr, with the queries' boxes; or if a
 * logit means "no object", the best queries, each with its best class. Equal scores are ordered by
 * level, cell and class, so that the order is the same everywhere. Scores that are NaN count as
 * below the threshold; boxes that are not finite, or have a negative side, are left out. Boxes
 * without width or height overlap no other box. Returns the number of boxes, of which at most
 * `capacity` are written. `scratch` has levels * nms_pre elements. Allocates nothing. */
size_t fv_boxes_find(const fv_detection *d, const fv_box_level *level, float width, float height,
                     fv_box_candidate *scratch, fovea_detection *out, size_t capacity);

/* detections.c: finds the boxes of a detector in the outputs of a frame, in pixels of the picture
 * that was run, as fv_boxes_find does, and sets *n to their number. Leaves them as candidates in
 * the plan's scratch, in the same order. */
fovea_status fv_detections_find(size_t *n, const struct fovea_plan *p, const fovea_output *outs,
                                fovea_detection *boxes, size_t capacity);

/* Decodes the box of an anchor of a level; `place` is the number of the anchor in the level.
 * Returns false if the numbers are not a valid box, or if the box is too small. */
bool fv_boxes_decode(float box[4], const fv_detection *d, uint32_t level, uint32_t grid_width,
                     uint32_t place, const float number[4], float width, float height);
/* Returns the intersection over union of two boxes, or 0 if both are empty. */
double fv_boxes_overlap(const float a[4], const float b[4]);

#endif
