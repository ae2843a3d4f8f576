/* ref_softmax.c: SOFTMAX: softmax attention of some queries over all keys.
 *
 *   dim    rows (= queries of the step), d, dv, keys; heads
 *   Q      ROW, heads * d wide        K  WHOLE, keys x (heads * d)
 *   OUT    ROW, heads * dv wide       V  WHOLE, keys x (heads * dv)
 *   REL_POS  ROW, heads * (H + W) wide, what REL_POS writes; absent: none. The keys are a grid of
 *          H rows of W keys; dim columns = W, 0 where it is absent
 *   f[0]   scale                      OUT is none of the others
 *   type   of each operand: F32 or BF16
 *   flags  FV_FLAG_CAUSAL: query i sees the keys j <= i, i the absolute row; keys > i then
 *   col0, cols  heads
 *
 *               head 0    head 1                         head 0     head 1
 *   Q, K row  | d values | d values | ..    V, OUT row | dv values | dv values | ..
 *
 *   s_j = f0 q_i.k_j (+ r[j / W] + r[H + j % W], r: REL_POS of the query and head)
 *   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * Sums and statistics are float32. With prob.acc BF16 kernels may round to bfloat16 what they
 * multiply: Q, K, V, and p_j, which then enters both sums rounded. Memory is bounded for any number
 * of keys: no kernel holds a row of scores. A query's result does not depend on how rows and heads
 * are split into calls.
 */
#include <math.h>

#include "base/half.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_rel_pos.h"

const fv_op fv_op_softmax = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_REL_POS_COLUMNS] = {"columns", FV_DIM_TOKENS}},
    .operand = {[FV_SOFTMAX_Q] = {"Q", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_SOFTMAX_K] = {"K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_SOFTMAX_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_SOFTMAX_REL_POS] = {"REL_POS", .columns = fv_columns_rel_pos},
                [FV_SOFTMAX_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .headroom = FV_HEADROOM_WEIGHTS,
    .costly = true,
};

/* Row r of a call, `sum` has room for a head's outputs. */
static void attend(const fv_args *a, const fv_call *c, size_t r, size_t head, size_t keys,
                   float *sum)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t q = r * a->ld[FV_SOFTMAX_Q] + head * d;
    const size_t out = r * a->ld[FV_SOFTMAX_OUT] + head * dv;
    float max = -INFINITY, weights = 0.f;
    for (size_t i = 0; i < dv; i++)
        sum[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        const size_t k = j * a->ld[FV_SOFTMAX_K] + head * d;
        const size_t v = j * a->ld[FV_SOFTMAX_V] + head * dv;
        float s = 0.f;
        for (size_t i = 0; i < d; i++)
            s += fv_value_get(c->p[FV_SOFTMAX_Q], a->type[FV_SOFTMAX_Q], q + i) *
                 fv_value_get(c->p[FV_SOFTMAX_K], a->type[FV_SOFTMAX_K], k + i);
        s = s * a->f[0] +
            ref_rel_pos_at(a, c->p[FV_SOFTMAX_REL_POS], FV_SOFTMAX_REL_POS, r, head, j);
        if (s > max) {
            const float fade = expf(max - s);
            max = s;
            weights *= fade;
            for (size_t i = 0; i < dv; i++)
                sum[i] *= fade;
        }
        const float p = expf(s - max);
        weights += p;
        for (size_t i = 0; i < dv; i++)
            sum[i] += p * fv_value_get(c->p[FV_SOFTMAX_V], a->type[FV_SOFTMAX_V], v + i);
    }
    for (size_t i = 0; i < dv; i++)
        fv_value_put(c->p[FV_SOFTMAX_OUT], a->type[FV_SOFTMAX_OUT], out + i, sum[i] / weights);
}

void fv_k_softmax_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        size_t keys = a->prob.dim[FV_ATTN_KEYS];
        if (a->prob.flags & FV_FLAG_CAUSAL && c->row0 + r < keys)
            keys = c->row0 + r + 1;
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
            attend(a, c, r, h, keys, c->scratch);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return p->dim[FV_ATTN_DV] * sizeof(float);
}

const fv_kernel_hooks fv_h_softmax_f32_ref = {.scratch = scratch_bytes};
