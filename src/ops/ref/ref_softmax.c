/* ref_softmax.c: SOFTMAX: softmax attention of some queries over all keys.
 *
 *   dim    rows (= queries of the step), d, dv, keys; heads
 *   Q      ROW, heads * d wide        K  WHOLE, keys x (heads * d)
 *   OUT    ROW, heads * dv wide       V  WHOLE, keys x (heads * dv)
 *   REL_POS  ROW, heads * (H + W) wide, the result of REL_POS, or absent. The keys are a grid of
 *          H rows of W keys; dim columns = W, or 0 if REL_POS is absent
 *   f[0]   scale                      OUT is not another operand
 *   type   of each operand: F32 or BF16
 *   flags  FV_FLAG_CAUSAL: query i, an absolute row, attends to keys j <= i; then keys > i
 *   col0, cols  heads
 *
 *               head 0    head 1                         head 0     head 1
 *   Q, K row  | d values | d values | ..    V, OUT row | dv values | dv values | ..
 *
 *   s_j = f0 q_i.k_j (+ r[j / W] + r[H + j % W], r: REL_POS of the query and head)
 *   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * Sums and statistics are float32. With prob.acc BF16, kernels may round to bfloat16 the operands
 * of products: Q, K, V, and p_j, which is then rounded in both sums. Memory is bounded for any
 * number of keys: no kernel holds a row of scores. A query's result does not depend on how rows and
 * heads are split into calls.
 *
 * With prob.acc I32, which is not possible with CAUSAL, K is the result of KEYS_I8, WHOLE, and V is
 * absent:
 *
 *   s_j = f0 q_i.k_j;   k_j = its int8 numbers times key_scale, v_j = its numbers times value_scale
 *
 * Kernels quantise q_i of a head as ops/quantise.h defines, before f0 and without a rotation. For
 * each FV_SOFTMAX_BLOCK keys, they may round p_j to multiples of 1/255 of the largest p_j, except
 * in the sum of p_j. They may compute p_j with an error of 2^-9. A NaN or infinity in Q makes the
 * result of that query and head NaN; a NaN or infinity in a scale of KEYS_I8 makes all results NaN
 * that depend on it.
 */
#include <math.h>

#include "base/half.h"
#include "ops/quantise.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_keys_i8.h"
#include "ops/ref/ref_rel_pos.h"

const fv_op fv_op_softmax = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_REL_POS_COLUMNS] = {"columns", FV_DIM_TOKENS}},
    .operand = {[FV_SOFTMAX_Q] = {"Q", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_SOFTMAX_K] = {"K", .columns = fv_columns_keys, .narrow = true},
                [FV_SOFTMAX_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_SOFTMAX_REL_POS] = {"REL_POS", .columns = fv_columns_rel_pos},
                [FV_SOFTMAX_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .multiplies = FV_MULTIPLIES_ROWS,
    .headroom = FV_HEADROOM_WEIGHTS,
    .costly = true,
};

static ref_pairs pairs_of(const fv_args *a, const fv_call *c, size_t head)
{
    const uint32_t *dim = a->prob.dim;
    ref_pairs s = {
        .a = a,
        .c = c,
        .head = head,
        .l = fv_keys_i8_of(dim[FV_ATTN_KEYS], dim[FV_ATTN_D], dim[FV_ATTN_DV]),
    };
    if (a->type[FV_SOFTMAX_K] == FV_U8)
        s.whole = (const char *)c->p[FV_SOFTMAX_K] + head * a->ld[FV_SOFTMAX_K];
    return s;
}

/* Computes the attention of row r of a call. `scratch` is a buffer for a head's outputs and a
 * query. */
static void attend(const fv_args *a, const fv_call *c, size_t r, size_t head, size_t keys,
                   float *scratch)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const ref_pairs pair = pairs_of(a, c, head);
    const size_t q = r * a->ld[FV_SOFTMAX_Q] + head * d;
    const size_t out = r * a->ld[FV_SOFTMAX_OUT] + head * dv;
    float *sum = scratch, *query = scratch + dv, max = -INFINITY, weights = 0.f;
    for (size_t i = 0; i < d; i++)
        query[i] = fv_value_get(c->p[FV_SOFTMAX_Q], a->type[FV_SOFTMAX_Q], q + i);
    if (a->prob.acc == FV_I32)
        fv_int8_round(query, (uint32_t)d);
    for (size_t i = 0; i < dv; i++)
        sum[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        float s = 0.f;
        for (size_t i = 0; i < d; i++)
            s += query[i] * ref_pairs_key(&pair, j, i);
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
            sum[i] += p * ref_pairs_value(&pair, j, i);
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
    return ((size_t)p->dim[FV_ATTN_DV] + p->dim[FV_ATTN_D]) * sizeof(float);
}

const fv_kernel_hooks fv_h_softmax_f32_ref = {.scratch = scratch_bytes};
