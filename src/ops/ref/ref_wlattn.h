/* ref_wlattn.h: computes a window of WLATTN by calls of LATTN_REDUCE and LATTN_APPLY. */
#ifndef FOVEA_SRC_REF_REF_WLATTN_H
#define FOVEA_SRC_REF_REF_WLATTN_H

#include "base/half.h"
#include "ops/contracts/linear_attention.h"
#include "ops/kernel.h"

/* The constant arguments of LATTN_REDUCE and LATTN_APPLY. */
typedef struct fv_wlattn_args {
    fv_args reduce, apply;
} fv_wlattn_args;

static inline fv_wlattn_args fv_wlattn_split(const fv_args *a)
{
    fv_wlattn_args w = {.reduce = {.prob = a->prob}, .apply = {.prob = a->prob}};
    w.reduce.prob.op = FV_OP_LATTN_REDUCE;
    w.reduce.prob.dim[FV_ATTN_GROUPS] = 1;
    w.reduce.ld[FV_REDUCE_K] = a->ld[FV_WINDOW_K];
    w.reduce.ld[FV_REDUCE_V] = a->ld[FV_WINDOW_V];
    w.reduce.ld[FV_REDUCE_PARAM] = a->ld[FV_WINDOW_PARAM];
    w.reduce.type[FV_REDUCE_K] = a->type[FV_WINDOW_K];
    w.reduce.type[FV_REDUCE_V] = a->type[FV_WINDOW_V];
    w.reduce.f[0] = 1.f / (float)a->prob.dim[FV_ATTN_KEYS];
    w.reduce.f[1] = a->f[2];
    w.apply.prob.op = FV_OP_LATTN_APPLY;
    w.apply.ld[FV_APPLY_Q] = a->ld[FV_WINDOW_Q];
    w.apply.ld[FV_APPLY_PARAM] = a->ld[FV_WINDOW_PARAM];
    w.apply.ld[FV_APPLY_OUT] = a->ld[FV_WINDOW_OUT];
    w.apply.type[FV_APPLY_Q] = a->type[FV_WINDOW_Q];
    w.apply.type[FV_APPLY_OUT] = a->type[FV_WINDOW_OUT];
    w.apply.f[0] = a->f[0];
    w.apply.f[1] = a->f[1];
    w.apply.f[2] = a->f[2];
    return w;
}

/* Returns row `row` of operand `i` of a call. */
static inline void *fv_wlattn_row(const fv_args *a, const fv_call *c, int i, size_t row)
{
    return fv_element(c->p[i], a->type[i], row * a->ld[i]);
}

/* Returns the call of LATTN_REDUCE that sums the keys of the window beginning at row `row` into
 * `state`. */
static inline fv_call fv_wlattn_reduce(const fv_args *a, const fv_call *c, size_t row, float *state,
                                       void *scratch)
{
    return (fv_call){.rows = a->prob.dim[FV_ATTN_KEYS],
                     .col0 = c->col0,
                     .cols = c->cols,
                     .first = 1,
                     .p = {[FV_REDUCE_K] = fv_wlattn_row(a, c, FV_WINDOW_K, row),
                           [FV_REDUCE_V] = fv_wlattn_row(a, c, FV_WINDOW_V, row),
                           [FV_REDUCE_PARAM] = c->p[FV_WINDOW_PARAM],
                           [FV_REDUCE_PARTIAL] = state},
                     .scratch = scratch};
}

/* Returns the call of LATTN_APPLY for the queries of that window. */
static inline fv_call fv_wlattn_apply(const fv_args *a, const fv_call *c, size_t row, float *state,
                                      void *scratch)
{
    return (fv_call){.rows = a->prob.dim[FV_ATTN_KEYS],
                     .col0 = c->col0,
                     .cols = c->cols,
                     .p = {[FV_APPLY_Q] = fv_wlattn_row(a, c, FV_WINDOW_Q, row),
                           [FV_APPLY_STATE] = state,
                           [FV_APPLY_PARAM] = c->p[FV_WINDOW_PARAM],
                           [FV_APPLY_OUT] = fv_wlattn_row(a, c, FV_WINDOW_OUT, row)},
                     .scratch = scratch};
}

#endif
