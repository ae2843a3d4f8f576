/* ref_wsoftmax.c: WSOFTMAX: softmax attention inside windows of rows.
 *
 *   dim    rows, d, dv, T (rows of a window; rows and the calls' rows are multiples of it); heads
 *   Q, K   ROW, heads * d wide           V    ROW, heads * dv wide
 *   PARAM  (heads * T, T): row h * T + i is added to the scores of query i and head h, a column per
 *          key of the window; absent: none. With dim columns = W > 0 ROW, heads * (T / W + W) wide,
 *          what REL_POS writes; a window is a grid of rows of W tokens
 *   OUT    ROW, heads * dv wide; none of the others
 *   f[0]   scale
 *   type   of Q, K, V and OUT, each: F32 or BF16
 *   table  uint32: a region per row, or NULL. Rows of a window that are of different regions, which
 *          a cyclic shift has brought together: -100 is added to their score
 *   col0, cols  heads
 *
 * Window w consists of rows w T .. w T + T - 1, in the order that they have in the window. For
 * query i and the keys j of its window:
 *
 *   s_j = f0 q_i.k_j + PARAM[h T + i][j] - 100 (region_i != region_j), or with W > 0
 *   s_j = f0 q_i.k_j + r[j / W] + r[T / W + j % W] - ..., r: PARAM of the query and head
 *   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * Sums and statistics are float32. With prob.acc BF16 kernels may round to bfloat16 what they
 * multiply: Q, K, V, and p_j, which then enters both sums rounded.
 *
 * A query's result does not depend on how windows and heads are split into calls.
 */
#include <math.h>

#include "base/half.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_rel_pos.h"

const fv_op fv_op_wsoftmax = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"T"}, [FV_REL_POS_COLUMNS] = {"columns"}},
    .operand = {[FV_WINDOW_Q] = {"Q", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_WINDOW_K] = {"K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_WINDOW_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_WINDOW_PARAM] = {"PARAM", .stored = FV_STORED_FLOATS,
                                     .columns = fv_columns_rel_pos},
                [FV_WINDOW_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .headroom = FV_HEADROOM_WEIGHTS,
};

/* Row `r` of a window that begins at row `base` of the call. */
static void attend(const fv_args *a, const fv_call *c, size_t base, size_t r, size_t head)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t keys = a->prob.dim[FV_ATTN_KEYS], at = base + r;
    const size_t q = at * a->ld[FV_WINDOW_Q] + head * d;
    const size_t out = at * a->ld[FV_WINDOW_OUT] + head * dv;
    const bool relative = a->prob.dim[FV_REL_POS_COLUMNS] > 0;
    const float *param = relative ? NULL : c->p[FV_WINDOW_PARAM];
    const uint32_t *region = a->table;
    float *s = c->scratch, *sum = s + keys, max = -INFINITY, weights = 0.f;
    for (size_t j = 0; j < keys; j++) {
        const size_t k = (base + j) * a->ld[FV_WINDOW_K] + head * d;
        s[j] = 0.f;
        for (size_t i = 0; i < d; i++)
            s[j] += fv_value_get(c->p[FV_WINDOW_Q], a->type[FV_WINDOW_Q], q + i) *
                    fv_value_get(c->p[FV_WINDOW_K], a->type[FV_WINDOW_K], k + i);
        s[j] *= a->f[0];
        if (param)
            s[j] += param[(head * keys + r) * a->ld[FV_WINDOW_PARAM] + j];
        if (relative)
            s[j] += ref_rel_pos_at(a, c->p[FV_WINDOW_PARAM], FV_WINDOW_PARAM, at, head, j);
        if (region && region[c->row0 + at] != region[c->row0 + base + j])
            s[j] -= 100.f;
        max = s[j] > max ? s[j] : max;
    }
    for (size_t i = 0; i < dv; i++)
        sum[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        const size_t v = (base + j) * a->ld[FV_WINDOW_V] + head * dv;
        const float p = expf(s[j] - max);
        weights += p;
        for (size_t i = 0; i < dv; i++)
            sum[i] += p * fv_value_get(c->p[FV_WINDOW_V], a->type[FV_WINDOW_V], v + i);
    }
    for (size_t i = 0; i < dv; i++)
        fv_value_put(c->p[FV_WINDOW_OUT], a->type[FV_WINDOW_OUT], out + i, sum[i] / weights);
}

void fv_k_wsoftmax_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t window = a->prob.dim[FV_ATTN_KEYS];
    for (size_t r = 0; r < c->rows; r++) {
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
            attend(a, c, r - r % window, r % window, h);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return (p->dim[FV_ATTN_KEYS] + p->dim[FV_ATTN_DV]) * sizeof(float);
}

const fv_kernel_hooks fv_h_wsoftmax_f32_ref = {.scratch = scratch_bytes};
