/* ref_lattn_merge.c: LATTN_MERGE: the partial states of all groups become one state.
 *
 *   dim      1, d, dv, keys, groups; heads
 *   PARTIAL  groups consecutive states, each as LATTN_REDUCE leaves it
 *   STATE    one state of the same layout
 *   col0, cols  heads
 *
 *   state = partial_0 + partial_1 + ..  in this order
 */
#include "cpu_kernels.h"
#include "mech/mech.h"

void FV_MECH_NAME(fv_k_lattn_merge_f32, ref)(const fv_args *a, const fv_call *c)
{
    const size_t size = (size_t)a->prob.dim[FV_ATTN_D] * (a->prob.dim[FV_ATTN_DV] + 1);
    const float *partial = c->p[FV_MERGE_PARTIAL];
    float *state = c->p[FV_MERGE_STATE];
    for (size_t i = size * c->col0; i < size * ((size_t)c->col0 + c->cols); i++) {
        float sum = partial[i];
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            sum += partial[g * size * a->prob.heads + i];
        state[i] = sum;
    }
}
