/* ref_lattn_merge.c: LATTN_MERGE: merges the partials of all reduction groups into one state.
 *
 *   dim      1, d, dv, keys, groups; heads; mech
 *   PARTIAL  groups consecutive states, each as LATTN_REDUCE writes it
 *   STATE    one state of the same layout: the result of LATTN_REDUCE over all rows
 *   col0, cols  heads
 *
 * Groups are merged in order. S, m and w are added. With FV_WANT_CENTRED, S is first converted to
 * the mean of all values; with FV_WANT_SHIFT, S and m to the largest shift.
 */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"

static double flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * p->dim[FV_ATTN_GROUPS] * n.blocks * (n.d * n.dv + n.d);
}

const fv_op fv_op_lattn_merge = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}, [FV_ATTN_GROUPS] = {"groups"}},
    .operand = {[FV_MERGE_PARTIAL] = {"PARTIAL", .columns = fv_lattn_state_columns,
                                      .state_of = FV_OP_LATTN_REDUCE},
                [FV_MERGE_STATE] = {"STATE", .columns = fv_lattn_state_columns,
                                    .state_of = FV_OP_LATTN_REDUCE}},
    .flops = flops,
    .terms = fv_terms_groups,
    .groups = FV_ATTN_GROUPS,
    .headroom = FV_HEADROOM_STATE,
};

#else
#include <string.h>

#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_lattn.h"

void FV_MECH_NAME(fv_k_lattn_merge_f32, ref)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, (uint32_t)d, (uint32_t)dv);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *partial = (const float *)c->p[FV_MERGE_PARTIAL] + h * l.floats;
        float *state = (float *)c->p[FV_MERGE_STATE] + h * l.floats;
        memcpy(state, partial, l.floats * sizeof *state);
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            ref_fold(state, partial + g * a->prob.heads * l.floats, &l, FV_BLOCKS * d, dv);
    }
}

#endif
