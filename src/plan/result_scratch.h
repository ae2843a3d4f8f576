/* result_scratch.h: what a plan keeps for making results of its outputs (results.h of the
 * interface). */
#ifndef FOVEA_SRC_PLAN_RESULT_SCRATCH_H
#define FOVEA_SRC_PLAN_RESULT_SCRATCH_H

#include "graph/emit.h"

struct fovea_plan;
struct fv_candidate;

/* NULL: the plan has no outputs that need it. */
typedef struct fv_result_scratch {
    float *floats;                   /* of the maps of depth or classes, or the masks */
    uint32_t *columns, *run_columns; /* of a map; of the picture that was run */
    struct fv_candidate *candidates; /* of boxes: models/detection.h */
} fv_result_scratch;

/* Of the places along one side of a grid: the two around the centre of a pixel of a map, and how
 * far it is to the second. Beyond the centres at the edges both are the last. */
typedef struct fv_between {
    uint32_t first, second;
    float part;
    bool outside; /* of the picture */
} fv_between;

/* The four places around the centre of a pixel, those beyond the edges being the last ones, and the
 * weight of each in a cubic interpolation. */
typedef struct fv_cubic {
    uint32_t place[4];
    float weight[4];
    bool outside; /* of the picture */
} fv_cubic;

/* A query whose mask is looked at. */
typedef struct fv_query_mask {
    uint32_t query, label;
    float score;
    uint32_t won, inside; /* pixels of the map */
    uint32_t id;          /* 1 + its index among the records; 0: not a record */
    double sum;           /* of the probabilities of those that are inside */
} fv_query_mask;

/* Sets p->run.results, once all outputs are emitted: tables of the graph. */
void fv_result_scratch_reserve(struct fovea_plan *p, fv_builder *b);
fv_between *fv_result_scratch_columns(const struct fovea_plan *p);
fv_cubic *fv_result_scratch_cubic_columns(const struct fovea_plan *p); /* in the same place */

/* Division of the floats. A line is the interpolation of the grid's rows at the height of a row of
 * pixels; depth needs nothing else. Masks are enlarged in two steps, first to the picture that was
 * run: `wide` has its pixels at the height of a row, `columns` their positions in the grid. */
typedef struct fv_class_scratch {
    float *line, *pixel; /* grid width x columns, columns */
    float *share;        /* of masks: queries x classes; else NULL */
    float *score[2];     /* of masks: two lines of the picture, width x classes */
    float *mean;         /* of masks: classes */
    fv_between *columns; /* of masks: width */
} fv_class_scratch;
typedef struct fv_mask_scratch {
    float *line, *wide, *pixel;
    fv_between *columns;
    fv_query_mask *work; /* queries */
} fv_mask_scratch;
fv_class_scratch fv_result_scratch_classes(const struct fovea_plan *p);
fv_mask_scratch fv_result_scratch_masks(const struct fovea_plan *p);

#endif
