/* ref_loss.h: the functions that the references of the cross-entropies share. */
#ifndef FOVEA_SRC_ADAPT_REF_LOSS_H
#define FOVEA_SRC_ADAPT_REF_LOSS_H

#include <math.h>
#include <stddef.h>

#include "ops/op.h"
#include "train/ref/training.h"

/* Returns log sum_c exp(x[c]). */
static inline double fv_ref_log_sum(const float *x, size_t n)
{
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? (double)x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - max);
    return max + log(sum);
}

/* Sizes of both SEGMENT operations. */
#define FV_SEGMENT_SIZES                                                                           \
    {"tokens", FV_DIM_TOKENS}, [FV_ROW_C] = {"classes"}, [FV_SEGMENT_GRID] = {"grid"},             \
                               [FV_SEGMENT_WIDTH] = {"width"}, [FV_SEGMENT_HEIGHT] = {"height"}
#define FV_SEGMENT_OPERANDS                                                                        \
    [FV_SEGMENT_LOGITS] = {"LOGITS", FV_ROW_C}, [FV_SEGMENT_MASK] = {"MASK", FV_SEGMENT_WIDTH},    \
    [FV_SEGMENT_WEIGHT] = {"WEIGHT"}

static inline double fv_segment_flops(const fv_problem *p)
{
    return 30. * p->dim[FV_SEGMENT_WIDTH] * p->dim[FV_SEGMENT_HEIGHT] * p->dim[FV_ROW_C];
}

/* Returns the number of pixels to which a token contributes. */
static inline double fv_segment_terms(const fv_problem *p)
{
    return 4. * p->dim[FV_SEGMENT_WIDTH] * p->dim[FV_SEGMENT_HEIGHT] / p->dim[FV_DIM_ROWS];
}

#endif
