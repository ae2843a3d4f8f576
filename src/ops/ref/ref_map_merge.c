/* ref_map_merge.c: MAP_MERGE: merges the partials of attention pooling into the pooled row.
 *
 *   dim      1, d, unused, keys, groups; heads
 *   PARTIAL  groups x heads x (2 + d), packed, as ref_map_reduce.c writes them
 *   OUT      one row of heads * d
 *
 *   m = max_g m_g;   out = sum_g exp(m_g - m) acc_g / sum_g exp(m_g - m) l_g,  groups in order
 */
#include <math.h>

#include "ops/contracts/linear_attention.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_map_merge = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_ATTN_GROUPS] = {"groups"}},
    .operand = {[FV_MERGE_PARTIAL] = {"PARTIAL", .columns = fv_columns_map,
                                      .state_of = FV_OP_MAP_REDUCE},
                [FV_MERGE_STATE] = {"OUT", FV_ATTN_D, .heads = true}},
    .element_flops = 2,
    .terms = fv_terms_groups,
    .groups = FV_ATTN_GROUPS,
};

void fv_k_map_merge_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], groups = a->prob.dim[FV_ATTN_GROUPS];
    const uint32_t heads = a->prob.heads;
    const size_t stride = (size_t)heads * (2 + d);
    for (uint32_t h = 0; h < heads; h++) {
        const float *partial = (const float *)c->p[FV_MERGE_PARTIAL] + (size_t)h * (2 + d);
        float *out = (float *)c->p[FV_MERGE_STATE] + (size_t)h * d;
        float m = partial[0], l = 0.f;
        for (uint32_t g = 1; g < groups; g++)
            m = fmaxf(m, partial[g * stride]);
        for (uint32_t i = 0; i < d; i++)
            out[i] = 0.f;
        for (uint32_t g = 0; g < groups; g++) {
            const float *state = partial + g * stride;
            const float factor = expf(state[0] - m);
            l += factor * state[1];
            for (uint32_t i = 0; i < d; i++)
                out[i] += factor * state[2 + i];
        }
        for (uint32_t i = 0; i < d; i++)
            out[i] /= l;
    }
}
