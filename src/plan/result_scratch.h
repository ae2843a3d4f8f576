/* result_scratch.h: a plan's scratch memory for results.h of the public interface, which makes
 * results from the plan's outputs: boxes, masks, class maps, depth maps. */
#ifndef FOVEA_SRC_PLAN_RESULT_SCRATCH_H
#define FOVEA_SRC_PLAN_RESULT_SCRATCH_H

#include "graph/emit.h"

struct fovea_plan;
struct fv_box_candidate;

/* All pointers are NULL in a plan without outputs that need them. */
typedef struct fv_result_scratch {
    float *floats;                   /* for the maps of depth or classes, or for the masks */
    uint32_t *columns, *run_columns; /* positions in the grid of the columns of a map, and of the
                                        columns of the picture that was run */
    struct fv_box_candidate *candidates; /* candidates for boxes: models/detection.h */
} fv_result_scratch;

/* A pixel's position along one side of a grid: the two cells whose centres are on either side of
 * the pixel's centre, and its distance from the first centre, in cells. Beyond the outermost
 * centres, both are the outermost cell. */
typedef struct fv_between {
    uint32_t first, second;
    float part;
    bool outside; /* the pixel is outside the picture */
} fv_between;

/* The four cells around the centre of a pixel along one side of a grid, and their weights in a
 * cubic interpolation. Cells beyond an edge are replaced by the outermost one. */
typedef struct fv_cubic {
    uint32_t place[4];
    float weight[4];
    bool outside; /* the pixel is outside the picture */
} fv_cubic;

/* A query whose mask may become a record. */
typedef struct fv_query_mask {
    uint32_t query, label;
    float score;
    uint32_t won, inside; /* pixels that the query has won, and pixels inside its mask */
    uint32_t id;          /* 1 + its index among the records; 0: not a record */
    double sum;           /* sum of the probabilities of the pixels inside */
} fv_query_mask;

/* Reserves p->run.results among the graph's tables. Call this after all outputs are emitted. */
void fv_result_scratch_reserve(struct fovea_plan *p, fv_builder *b);
fv_between *fv_result_scratch_columns(const struct fovea_plan *p);
fv_cubic *fv_result_scratch_cubic_columns(const struct fovea_plan *p); /* same memory as the
                                                                          columns of fv_between */

/* The picture to which masks are enlarged first: the one that was run, or Mask2Former's square. */
typedef struct fv_canvas {
    uint32_t width, height;
} fv_canvas;
fv_canvas fv_mask_canvas(const struct fovea_plan *p);

/* How the scratch is divided. `line` holds the grid's rows interpolated at the height of a row of
 * pixels; depth needs nothing else. Masks are enlarged in two steps, first to the canvas: `wide` is
 * one row of it, and `columns` holds the positions of its pixels in the grid. */
typedef struct fv_class_scratch {
    float *line, *pixel; /* grid width x columns, columns */
    float *share;        /* masks: queries x classes; else NULL */
    float *score[2];     /* masks: two lines of the canvas, width x classes */
    float *mean;         /* masks: classes */
    fv_between *columns; /* masks: width */
} fv_class_scratch;
typedef struct fv_mask_scratch {
    float *line, *wide, *pixel;
    float *inside[2]; /* Mask2Former: two lines of the canvas, width x queries */
    fv_between *columns;
    fv_query_mask *work; /* queries; of an R-CNN, boxes, and `line` has a row of a box's mask */
} fv_mask_scratch;
fv_class_scratch fv_result_scratch_classes(const struct fovea_plan *p);
fv_mask_scratch fv_result_scratch_masks(const struct fovea_plan *p);

#endif
