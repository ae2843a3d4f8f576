/* ref_softmax.c: SOFTMAX: softmax attention of some queries over all keys.
 *
 *   dim    rows (= queries of the step), d, dv, keys; heads
 *   Q      ROW, heads * d wide        K  WHOLE, keys x (heads * d)
 *   OUT    ROW, heads * dv wide       V  WHOLE, keys x (heads * dv)
 *   f[0]   scale                      OUT is none of the others
 *   flags  FV_FLAG_CAUSAL: query i sees the keys j <= i, i the absolute row; keys > i then
 *   col0, cols  heads
 *
 *               head 0    head 1                         head 0     head 1
 *   Q, K row  | d floats | d floats | ..    V, OUT row | dv floats | dv floats | ..
 *
 *   s_j = f0 q_i.k_j;   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * Sums and statistics are float32. Memory is bounded for any number of keys: no kernel holds a row
 * of scores. A query's result does not depend on how rows and heads are split into calls.
 */
#include <math.h>

#include "ops/ref/ref_kernels.h"

const fv_op fv_op_softmax = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {[FV_SOFTMAX_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_SOFTMAX_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_SOFTMAX_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_SOFTMAX_OUT] = {"OUT", FV_ATTN_DV, .heads = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .headroom = FV_HEADROOM_WEIGHTS,
    .costly = true,
};

static void attend(float *out, const float *q, const float *k, size_t ldk, const float *v,
                   size_t ldv, size_t d, size_t dv, size_t keys, float scale)
{
    float max = -INFINITY, sum = 0.f;
    for (size_t i = 0; i < dv; i++)
        out[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        float s = 0.f;
        for (size_t i = 0; i < d; i++)
            s += q[i] * k[j * ldk + i];
        s *= scale;
        if (s > max) {
            const float fade = expf(max - s);
            max = s;
            sum *= fade;
            for (size_t i = 0; i < dv; i++)
                out[i] *= fade;
        }
        const float p = expf(s - max);
        sum += p;
        for (size_t i = 0; i < dv; i++)
            out[i] += p * v[j * ldv + i];
    }
    for (size_t i = 0; i < dv; i++)
        out[i] /= sum;
}

void fv_k_softmax_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const float *k = c->p[FV_SOFTMAX_K], *v = c->p[FV_SOFTMAX_V];
    for (size_t r = 0; r < c->rows; r++) {
        const float *q = (const float *)c->p[FV_SOFTMAX_Q] + r * a->ld[FV_SOFTMAX_Q];
        float *out = (float *)c->p[FV_SOFTMAX_OUT] + r * a->ld[FV_SOFTMAX_OUT];
        size_t keys = a->prob.dim[FV_ATTN_KEYS];
        if (a->prob.flags & FV_FLAG_CAUSAL && c->row0 + r < keys)
            keys = c->row0 + r + 1;
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
            attend(out + h * dv, q + h * d, k + h * d, a->ld[FV_SOFTMAX_K], v + h * dv,
                   a->ld[FV_SOFTMAX_V], d, dv, keys, a->f[0]);
    }
}
