/* mask_scores.h: classes of pixels from masks, as in transformers'
 * post_process_semantic_segmentation. Masks are enlarged to the canvas (result_scratch.h). There,
 * the score of a class is the sum, over all queries, of the probability of the class times that of
 * the pixel being inside the query's mask. The scores are then enlarged to the map. */
#ifndef FOVEA_SRC_RUN_MASK_SCORES_H
#define FOVEA_SRC_RUN_MASK_SCORES_H

#include "run/task_output.h"

/* The masks of one picture. */
typedef struct fv_mask_scores {
    fv_task_output masks;
    float *share;             /* queries x classes: probabilities */
    uint32_t classes, width;  /* width: pixels of the picture */
    fv_side rows;             /* maps the picture's rows to the rows of the masks' grid */
    const fv_between *column; /* maps the picture's columns to the grid's columns */
    float *line, *pixel;      /* scratch: grid width x queries, queries */
} fv_mask_scores;

/* Computes the class probabilities of all queries, without that of "no object", which is the last
 * logit. */
void fv_mask_shares(float *share, const fv_task_output *logits);
/* Adds the scores of the pixels in row y of the picture to `out`, width x classes. */
void fv_mask_scores_add(float *out, const fv_mask_scores *s, uint32_t y);

/* Makes lines of scores of a picture that is `width` pixels wide, and maps them to another size. */
typedef struct fv_score_lines {
    void (*make)(float *out, void *ctx, uint32_t y);
    void *ctx;
    uint32_t classes, width;
    float *line[2];           /* scratch: width x classes each */
    float *mean;              /* scratch: classes */
    fv_side rows;             /* maps the map's rows to the picture's rows */
    const fv_between *column; /* maps the map's columns to the picture's columns */
} fv_score_lines;

/* Returns the class with the largest score, or the first of several equal ones. */
uint16_t fv_largest(const float *score, uint32_t n);
void fv_score_lines_classify(uint16_t *out, const fv_score_lines *l, uint32_t width,
                             uint32_t height);

#endif
