/* mask_scores.h: classes of pixels by masks, as transformers' post_process_semantic_segmentation
 * finds them: masks are enlarged to the picture that was run, where a class has the sum over all
 * queries of their probability of it times that of the pixel being inside their mask; these scores
 * are enlarged again, to the map. */
#ifndef FOVEA_SRC_RUN_MASK_SCORES_H
#define FOVEA_SRC_RUN_MASK_SCORES_H

#include "run/task_output.h"

/* The masks of one picture. */
typedef struct fv_mask_scores {
    fv_task_output masks;
    float *share;             /* queries x classes: probabilities */
    uint32_t classes, width;  /* width: pixels of the picture */
    fv_side rows;             /* of the picture over the masks' grid */
    const fv_between *column; /* and its columns */
    float *line, *pixel;      /* scratch: grid width x queries, queries */
} fv_mask_scores;

/* The probabilities of the classes of all queries, of logits with those of nothing after them. */
void fv_mask_shares(float *share, const fv_task_output *logits);
/* Adds the scores of the pixels in row y of the picture to width x classes numbers. */
void fv_mask_scores_add(float *out, const fv_mask_scores *s, uint32_t y);

/* Lines of scores, of a picture of `width` pixels, and the map over them. */
typedef struct fv_score_lines {
    void (*make)(float *out, void *ctx, uint32_t y);
    void *ctx;
    uint32_t classes, width;
    float *line[2];           /* scratch: width x classes each */
    float *mean;              /* scratch: classes */
    fv_side rows;             /* of the map over the picture */
    const fv_between *column; /* and its columns */
} fv_score_lines;

/* The class with the largest score, of equals the first. */
uint16_t fv_largest(const float *score, uint32_t n);
void fv_score_lines_classify(uint16_t *out, const fv_score_lines *l, uint32_t width,
                             uint32_t height);

#endif
