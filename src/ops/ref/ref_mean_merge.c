/* ref_mean_merge.c: MEAN_MERGE: adds up the partials of all reduction groups.
 *
 *   dim      1, C, groups
 *   PARTIAL  groups x C, packed
 *   OUT      one row of C
 *
 *   flags    FV_FLAG_LARGEST, or none
 *
 *   out = sum over groups, in order;   LARGEST: maximum over groups
 */
#include <math.h>

#include "ops/contracts/linear_attention.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_mean_merge = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_MEAN_GROUPS] = {"groups"}},
    .operand = {[FV_MERGE_PARTIAL] = {"PARTIAL", FV_ROW_C, .state_of = FV_OP_MEAN_REDUCE},
                [FV_MERGE_STATE] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
    .terms = fv_terms_groups,
    .groups = FV_MEAN_GROUPS,
};

void fv_k_mean_merge_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[1], groups = a->prob.dim[2];
    const float *partial = c->p[FV_MERGE_PARTIAL];
    float *out = c->p[FV_MERGE_STATE];
    const bool largest = a->prob.flags & FV_FLAG_LARGEST;
    for (uint32_t i = 0; i < width; i++) {
        float sum = largest ? -INFINITY : 0.f;
        for (uint32_t g = 0; g < groups; g++) {
            const float x = partial[(size_t)g * width + i];
            sum = !largest ? sum + x : x > sum ? x : sum;
        }
        out[i] = sum;
    }
}
