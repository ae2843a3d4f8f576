/* ref_wlattn.c: WLATTN: linear attention inside windows of rows, each with its own state.
 *
 *   dim    rows, d, dv, T (rows of a window; rows and the calls' rows are multiples of it); heads;
 *          mech
 *   Q, K   ROW, heads * d wide           V    ROW, heads * dv wide
 *   PARAM  learned vectors, as for LATTN_REDUCE
 *   OUT    ROW, heads * dv wide; not another operand. Q, K, V and OUT: each F32 or BF16
 *   f      scale, eps and the mechanism's constant, as for LATTN_APPLY
 *   flags  FV_FLAG_UNNORMALISED
 *   col0, cols  heads
 *
 * Window w consists of rows w T .. w T + T - 1. Its result is that of LATTN_REDUCE on its keys, in
 * one call with f[0] = 1 / T, followed by LATTN_APPLY on its queries. The reference calls these two
 * ops. prob.acc BF16 permits the same rounding as in the two ops.
 *
 * A row's result does not depend on how windows and heads are split into calls.
 */
#ifndef FV_MECHANISM
#include "ops/mech_traits.h"
#include "ops/ref/lattn_counts.h"

static double flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * n.rows * n.blocks * (4 * n.d * n.dv + 5 * n.d + 2 * n.powers + n.centred);
}

static double terms(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return p->dim[FV_ATTN_KEYS] + n.blocks * n.d;
}

const fv_op fv_op_wlattn = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"T"}},
    .operand = {[FV_WINDOW_Q] = {"Q", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_WINDOW_K] = {"K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_WINDOW_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_WINDOW_PARAM] = {"PARAM", FV_ATTN_D, .heads = true, .stored = FV_STORED_FLOATS},
                [FV_WINDOW_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = flops,
    .terms = terms,
    .multiplies = FV_MULTIPLIES_ROWS,
};

#else
#include "mech/mech.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_wlattn.h"

static size_t state_floats(const fv_problem *p)
{
    return p->heads *
           fv_lattn_layout(FV_BLOCKS, FV_WANTS, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]).floats;
}

void FV_MECH_NAME(fv_k_wlattn_f32, ref)(const fv_args *a, const fv_call *c)
{
    const fv_wlattn_args args = fv_wlattn_split(a);
    float *state = c->scratch, *scratch = state + state_floats(&a->prob);
    for (size_t row = 0; row < c->rows; row += a->prob.dim[FV_ATTN_KEYS]) {
        const fv_call keys = fv_wlattn_reduce(a, c, row, state, scratch);
        const fv_call queries = fv_wlattn_apply(a, c, row, state, scratch);
        FV_MECH_NAME(fv_k_lattn_reduce_f32, ref)(&args.reduce, &keys);
        FV_MECH_NAME(fv_k_lattn_apply_f32, ref)(&args.apply, &queries);
    }
}

static bool applies(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_ROPE | FV_FLAG_GATED)) &&
           fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    return state_floats(p) * sizeof(float) +
           FV_MECH_NAME(fv_h_lattn_f32, ref).scratch(p, knobs, rows);
}

const fv_kernel_hooks FV_MECH_NAME(fv_h_wlattn_f32, ref) = {.applies = applies,
                                                            .scratch = scratch_bytes};

#endif
