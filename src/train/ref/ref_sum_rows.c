/* ref_sum_rows.c: SUM_ROWS: sums over tokens: gradients of biases and layer scales.
 *
 *   dim    1, C, tokens
 *   A      WHOLE: tokens x C      B  WHOLE: tokens x C, or absent: 1
 *   OUT    ROW: one row of C; must not be another operand
 *   flags  FV_FLAG_ACCUMULATE: the result is added to OUT
 *   col0, cols  columns; the pointers are at column 0
 *
 *   out[c] (+)= sum_t a[t][c] b[t][c]
 *
 * At most 256 tokens are summed at a time, so that rounding errors do not grow with the number of
 * tokens. A column's result does not depend on the other columns of the call. */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_GRAD_TOKENS] * p->dim[FV_ROW_C];
}

const fv_op fv_op_sum_rows = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GRAD_TOKENS] = {"tokens"}},
    .operand = {[FV_SUM_A] = {"A", FV_ROW_C},
                [FV_SUM_B] = {"B", FV_ROW_C},
                [FV_SUM_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .terms = fv_terms_tokens,
};

enum { BLOCK = 256 };

void fv_k_sum_rows_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *x = c->p[FV_SUM_A], *y = c->p[FV_SUM_B];
    float *out = c->p[FV_SUM_OUT];
    const size_t tokens = a->prob.dim[FV_GRAD_TOKENS];
    for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
        float all = a->prob.flags & FV_FLAG_ACCUMULATE ? out[i] : 0.f;
        for (size_t t0 = 0; t0 < tokens; t0 += BLOCK) {
            float sum = 0.f;
            for (size_t t = t0; t < tokens && t < t0 + BLOCK; t++)
                sum += x[t * a->ld[FV_SUM_A] + i] * (y ? y[t * a->ld[FV_SUM_B] + i] : 1.f);
            all += sum;
        }
        out[i] = all;
    }
}
