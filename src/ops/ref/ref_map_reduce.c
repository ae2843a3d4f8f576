/* ref_map_reduce.c: MAP_REDUCE: attention pooling: one learned query attends to all rows, with
 * online statistics.
 *
 *   dim      rows (= keys), d, unused, keys, groups; heads
 *   Q        heads * d floats, one row
 *   K, V     ROW: head h at column h * d
 *   PARTIAL  of the call's reduction group, per head 2 + d floats: m, l, acc[d]
 *   f[0]     scale
 *
 *   s_j = f0 q.k_j;   m = max_j s_j;   l = sum_j exp(s_j - m);   acc = sum_j exp(s_j - m) v_j
 *
 * over the call's rows if c->first (PARTIAL is then not read), or over the call's rows and those
 * that PARTIAL already contains: if m increases by x, l and acc are scaled by exp(-x).
 */
#include <math.h>

#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_DIM_ROWS] * (4. * p->dim[FV_ATTN_D] + 6);
}

const fv_op fv_op_map_reduce = {
    .span = FV_SPAN_REDUCE,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_ATTN_GROUPS] = {"groups"}},
    .operand = {[FV_MAP_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_MAP_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_MAP_V] = {"V", FV_ATTN_D, .heads = true},
                [FV_MAP_PARTIAL] = {"PARTIAL", .columns = fv_columns_map,
                                    .state_of = FV_OP_MAP_REDUCE}},
    .flops = flops,
    .terms = fv_terms_rows,
    .groups = FV_ATTN_GROUPS,
    .merge = FV_OP_MAP_MERGE,
};

void fv_k_map_reduce_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D];
    for (uint32_t h = 0; h < a->prob.heads; h++) {
        const float *q = (const float *)c->p[FV_MAP_Q] + (size_t)h * d;
        float *state = (float *)c->p[FV_MAP_PARTIAL] + (size_t)h * (2 + d), *acc = state + 2;
        if (c->first) {
            state[0] = -INFINITY;
            state[1] = 0.f;
            for (uint32_t i = 0; i < d; i++)
                acc[i] = 0.f;
        }
        for (uint32_t r = 0; r < c->rows; r++) {
            const float *k = (const float *)c->p[FV_MAP_K] + (size_t)r * a->ld[FV_MAP_K] + h * d;
            const float *v = (const float *)c->p[FV_MAP_V] + (size_t)r * a->ld[FV_MAP_V] + h * d;
            float s = 0.f;
            for (uint32_t i = 0; i < d; i++)
                s += q[i] * k[i];
            s *= a->f[0];
            if (s > state[0]) {
                const float factor = expf(state[0] - s);
                state[0] = s;
                state[1] *= factor;
                for (uint32_t i = 0; i < d; i++)
                    acc[i] *= factor;
            }
            const float p = expf(s - state[0]);
            state[1] += p;
            for (uint32_t i = 0; i < d; i++)
                acc[i] += p * v[i];
        }
    }
}
