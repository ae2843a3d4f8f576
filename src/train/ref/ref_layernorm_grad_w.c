/* ref_layernorm_grad_w.c: LAYERNORM_GRAD_W: gradients of a normalisation's weight and bias.
 *
 *   dim     2, C, tokens
 *   IN      WHOLE: tokens x C, the input of LAYERNORM    DOUT  WHOLE: tokens x C
 *   OUT     ROW: 2 x C: gradient of the weight, then of the bias; must not be another operand
 *   f[0]    eps
 *   flags   FV_FLAG_ACCUMULATE: the result is added to OUT
 *   col0, cols  columns; the pointers are at column 0. Rows of OUT are row0 to row0 + rows - 1.
 *
 *   out[0][c] (+)= sum_t dout[t][c] (in[t][c] - mean_t) / sigma_t     as in LAYERNORM_GRAD
 *   out[1][c] (+)= sum_t dout[t][c]
 *
 * At most 256 tokens are summed at a time. A column's result does not depend on how rows and
 * columns are split into calls. */
#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    return 10. * p->dim[FV_GRAD_TOKENS] * p->dim[FV_ROW_C];
}

const fv_op fv_op_layernorm_grad_w = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GRAD_TOKENS] = {"tokens"}},
    .operand = {[FV_LN_GRAD_W_IN] = {"IN", FV_ROW_C},
                [FV_LN_GRAD_W_DOUT] = {"DOUT", FV_ROW_C},
                [FV_LN_GRAD_W_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .terms = fv_terms_tokens,
};

static void statistics(double *mean, double *scale, const float *in, size_t n, float eps)
{
    double sum = 0, var = 0;
    for (size_t i = 0; i < n; i++)
        sum += in[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (in[i] - *mean) * (in[i] - *mean);
    *scale = 1 / sqrt(var / (double)n + (double)eps);
}

void fv_k_layernorm_grad_w_f32_ref(const fv_args *a, const fv_call *c)
{
    enum { COLS = 64 };
    const size_t tokens = a->prob.dim[FV_GRAD_TOKENS], end = (size_t)c->col0 + c->cols;
    float *out = c->p[FV_LN_GRAD_W_OUT];
    for (size_t i0 = c->col0; i0 < end; i0 += COLS) {
        const size_t n = end - i0 < COLS ? end - i0 : COLS;
        double sum[2][COLS] = {{0}};
        for (size_t t = 0; t < tokens; t++) {
            const float *in = (const float *)c->p[FV_LN_GRAD_W_IN] + t * a->ld[FV_LN_GRAD_W_IN];
            const float *g = (const float *)c->p[FV_LN_GRAD_W_DOUT] + t * a->ld[FV_LN_GRAD_W_DOUT];
            double mean, scale;
            statistics(&mean, &scale, in, a->prob.dim[FV_ROW_C], a->f[0]);
            for (size_t i = 0; i < n; i++) {
                sum[0][i] += g[i0 + i] * (in[i0 + i] - mean) * scale;
                sum[1][i] += g[i0 + i];
            }
        }
        for (size_t r = 0; r < c->rows; r++)
            for (size_t i = 0; i < n; i++) {
                float *to = out + r * a->ld[FV_LN_GRAD_W_OUT] + i0 + i;
                const double before = a->prob.flags & FV_FLAG_ACCUMULATE ? (double)*to : 0;
                *to = (float)(before + sum[c->row0 + r][i]);
            }
    }
}
