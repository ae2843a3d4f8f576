/* ref_lattn_param_grad.c: LATTN_PARAM_GRAD: the gradient of learned vectors of linear attention,
 * from the rows of q or of k and their gradients.
 *
 *   dim    learned vectors (= rows of OUT), columns = heads * d, rows, d; mech
 *   X, DX  WHOLE, (rows, columns): q or k, and its gradient
 *   PARAM  as in LATTN_APPLY
 *   OUT    ROW, columns wide: one row per vector; FV_FLAG_ACCUMULATE is supported
 *   f[0]   the mechanism's constant
 *   col0, cols  columns
 *
 *   out_p = param'(raw_p) sum_i term_p(x_i, dx_i)      with term and param' of mech/mech.h
 *
 * This operation is only for mechanisms that have such vectors. Arithmetic is float32, with
 * separate sums for blocks of rows. The order of additions depends only on the number of rows. */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    return 10. * p->dim[FV_DIM_ROWS] * p->dim[FV_PARAM_GRAD_COLUMNS] * p->dim[FV_PARAM_GRAD_ROWS];
}

static double terms(const fv_problem *p)
{
    return p->dim[FV_PARAM_GRAD_ROWS];
}

const fv_op fv_op_lattn_param_grad = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_COLUMN,
    .dim = {{"vectors"},
            [FV_PARAM_GRAD_COLUMNS] = {"columns"},
            [FV_PARAM_GRAD_ROWS] = {"rows", FV_DIM_TOKENS},
            [FV_PARAM_GRAD_D] = {"d"}},
    .operand = {[FV_PARAM_GRAD_X] = {"X", FV_PARAM_GRAD_COLUMNS},
                [FV_PARAM_GRAD_DX] = {"DX", FV_PARAM_GRAD_COLUMNS},
                [FV_PARAM_GRAD_PARAM] = {"PARAM", FV_PARAM_GRAD_COLUMNS,
                                         .stored = FV_STORED_FLOATS},
                [FV_PARAM_GRAD_OUT] = {"OUT", FV_PARAM_GRAD_COLUMNS}},
    .flops = flops,
    .terms = terms,
    .joint = true,
};

#else
#define FV_DERIVE
#include "ops/ref/ref_lattn.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

#if FV_PARAMS
/* Number of rows that are summed separately. */
enum { BLOCK = 64 };

void FV_MECH_NAME(fv_k_lattn_param_grad_f32, ref)(const fv_args *a, const fv_call *c)
{
    const size_t columns = a->prob.dim[FV_PARAM_GRAD_COLUMNS],
                 rows = a->prob.dim[FV_PARAM_GRAD_ROWS];
    const float *param = c->p[FV_PARAM_GRAD_PARAM];
    for (size_t p = 0; p < c->rows; p++) {
        const int which = (int)(c->row0 + p);
        for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
            const float *x = (const float *)c->p[FV_PARAM_GRAD_X] + i;
            const float *dx = (const float *)c->p[FV_PARAM_GRAD_DX] + i;
            float *out = (float *)c->p[FV_PARAM_GRAD_OUT] + p * a->ld[FV_PARAM_GRAD_OUT] + i;
            float sum = 0.f, block = 0.f;
            fv_row row = {.shift = 0.f};
            for (int k = 0; k < FV_PARAMS; k++)
                row.param[k] = fv_param(k, param[(size_t)k * columns + i], a->f[0]);
            for (size_t r = 0; r < rows; r++) {
                block += fv_param_term(which, x[r * a->ld[FV_PARAM_GRAD_X]],
                                       dx[r * a->ld[FV_PARAM_GRAD_DX]], row);
                if ((r + 1) % BLOCK && r + 1 < rows)
                    continue;
                sum += block;
                block = 0.f;
            }
            sum *= fv_param_slope(which, param[(size_t)which * columns + i], a->f[0]);
            *out = a->prob.flags & FV_FLAG_ACCUMULATE ? *out + sum : sum;
        }
    }
}
#endif

#endif
