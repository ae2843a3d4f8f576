/* ref_wsoftmax.c: WSOFTMAX: softmax attention inside windows of rows.
 *
 *   dim    rows, d, dv, T (rows of a window; rows and the calls' rows are multiples of it); heads
 *   Q, K   ROW, heads * d wide           V    ROW, heads * dv wide
 *   PARAM  (heads * T, T): row h * T + i is added to the scores of query i and head h, a column per
 *          key of the window; or absent. With dim columns = W > 0: ROW, heads * (T / W + W) wide,
 *          the result of REL_POS; a window is then a grid of rows of W tokens
 *   OUT    ROW, heads * dv wide; not another operand
 *   f[0]   scale
 *   type   of Q, K, V and OUT, each: F32 or BF16
 *   table  uint32: a region per row, or NULL. -100 is added to the score of two rows of a window
 *          that are in different regions, which a cyclic shift has brought together
 *   col0, cols  heads
 *
 * Window w consists of rows w T .. w T + T - 1, in the order that they have in the window. For
 * query i and the keys j of its window:
 *
 *   s_j = f0 q_i.k_j + PARAM[h T + i][j] - 100 (region_i != region_j), or with W > 0
 *   s_j = f0 q_i.k_j + r[j / W] + r[T / W + j % W] - ..., r: PARAM of the query and head
 *   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * Sums and statistics are float32. With prob.acc BF16, kernels may round to bfloat16 the operands
 * of products: Q, K, V, and p_j, which is then rounded in both sums.
 *
 * With prob.acc I32, the table and the PARAM of biases are absent; relative positions may be given.
 * K and V of each window are quantised as KEYS_I8 quantises those of a picture, and the attention
 * is that of ref_softmax.c for I32.
 *
 * A query's result does not depend on how windows and heads are split into calls.
 */
#include <math.h>

#include "base/half.h"
#include "ops/quantise.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_keys_i8.h"
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
    .multiplies = FV_MULTIPLIES_ROWS,
    .headroom = FV_HEADROOM_WEIGHTS,
};

static fv_keys_i8 layout(const fv_problem *p)
{
    return fv_keys_i8_of(p->dim[FV_ATTN_KEYS], p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]);
}

/* Returns the score of query r of the window, whose channels are `query`, for key j. */
static float score(const ref_pairs *w, const float *query, size_t r, size_t j)
{
    const fv_args *a = w->a;
    const fv_call *c = w->c;
    const size_t at = w->first + r, keys = w->l.n;
    const bool relative = a->prob.dim[FV_REL_POS_COLUMNS] > 0;
    const float *param = relative ? NULL : c->p[FV_WINDOW_PARAM];
    const uint32_t *region = a->table;
    float s = 0.f;
    for (size_t i = 0; i < w->l.d; i++)
        s += query[i] * ref_pairs_key(w, j, i);
    s *= a->f[0];
    if (param)
        s += param[(w->head * keys + r) * a->ld[FV_WINDOW_PARAM] + j];
    if (relative)
        s += ref_rel_pos_at(a, c->p[FV_WINDOW_PARAM], FV_WINDOW_PARAM, at, w->head, j);
    if (region && region[c->row0 + at] != region[c->row0 + w->first + j])
        s -= 100.f;
    return s;
}

/* Computes the attention of query r of the window. `scratch` is a buffer for its channels, scores
 * and output. */
static void attend(const ref_pairs *w, size_t r, float *scratch)
{
    const fv_args *a = w->a;
    const fv_call *c = w->c;
    const size_t d = w->l.d, dv = w->l.dv, keys = w->l.n, at = w->first + r;
    const size_t q = at * a->ld[FV_WINDOW_Q] + w->head * d;
    const size_t out = at * a->ld[FV_WINDOW_OUT] + w->head * dv;
    float *query = scratch, *s = query + d, *sum = s + keys, max = -INFINITY, weights = 0.f;
    for (size_t i = 0; i < d; i++)
        query[i] = fv_value_get(c->p[FV_WINDOW_Q], a->type[FV_WINDOW_Q], q + i);
    if (w->whole)
        fv_int8_round(query, (uint32_t)d);
    for (size_t j = 0; j < keys; j++) {
        s[j] = score(w, query, r, j);
        max = s[j] > max ? s[j] : max;
    }
    for (size_t i = 0; i < dv; i++)
        sum[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        const float p = expf(s[j] - max);
        weights += p;
        for (size_t i = 0; i < dv; i++)
            sum[i] += p * ref_pairs_value(w, j, i);
    }
    for (size_t i = 0; i < dv; i++)
        fv_value_put(c->p[FV_WINDOW_OUT], a->type[FV_WINDOW_OUT], out + i, sum[i] / weights);
}

void fv_k_wsoftmax_f32_ref(const fv_args *a, const fv_call *c)
{
    ref_pairs w = {.a = a, .c = c, .l = layout(&a->prob)};
    char *whole = c->scratch;
    float *scratch = (float *)(void *)(whole + w.l.bytes);
    for (w.first = 0; w.first < c->rows; w.first += w.l.n) {
        for (w.head = c->col0; w.head < (size_t)c->col0 + c->cols; w.head++) {
            if (a->prob.acc == FV_I32) {
                const ref_rows k = {.tokens = FV_WINDOW_K, .first = w.first, .n = w.l.n};
                const ref_rows v = {.tokens = FV_WINDOW_V, .first = w.first, .n = w.l.n};
                fv_ref_keys_i8_write(whole, &w.l, a, c, k, v, w.head, scratch);
                w.whole = whole;
            }
            for (size_t r = 0; r < w.l.n; r++)
                attend(&w, r, scratch);
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const fv_keys_i8 l = layout(p);
    const size_t attend = (l.d + l.n + l.dv) * sizeof(float), quantise = fv_ref_keys_i8_scratch(&l);
    (void)knobs, (void)rows;
    return l.bytes + (attend > quantise ? attend : quantise);
}

const fv_kernel_hooks fv_h_wsoftmax_f32_ref = {.scratch = scratch_bytes};
