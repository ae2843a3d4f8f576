/* ref_wsoftmax.c: WSOFTMAX: softmax attention inside windows of rows.
 *
 *   dim    rows, d, dv, T (rows of a window; rows and the calls' rows are multiples of it); heads
 *   Q, K   ROW, heads * d wide           V    ROW, heads * dv wide
 *   PARAM  (heads * T, T): row h * T + i is added to the scores of query i and head h, a column per
 *          key of the window; absent: none
 *   OUT    ROW, heads * dv wide; none of the others
 *   f[0]   scale
 *   table  uint32: a region per row, or NULL. Rows of a window that are of different regions, which
 *          a cyclic shift has brought together: -100 is added to their score
 *   col0, cols  heads
 *
 * Window w consists of rows w T .. w T + T - 1, in the order that they have in the window. For
 * query i and the keys j of its window:
 *
 *   s_j = f0 q_i.k_j + PARAM[h T + i][j] - 100 (region_i != region_j)
 *   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * A query's result does not depend on how windows and heads are split into calls.
 */
#include <math.h>

#include "ops/ref/ref_kernels.h"

const fv_op fv_op_wsoftmax = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"T"}},
    .operand = {[FV_WINDOW_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_WINDOW_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_WINDOW_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_WINDOW_PARAM] = {"PARAM", .stored = FV_STORED_FLOATS, .width = FV_ATTN_KEYS},
                [FV_WINDOW_OUT] = {"OUT", FV_ATTN_DV, .heads = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .headroom = FV_HEADROOM_WEIGHTS,
};

/* Row `r` of a window that begins at row `base` of the call. */
static void attend(const fv_args *a, const fv_call *c, size_t base, size_t r, size_t head)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t keys = a->prob.dim[FV_ATTN_KEYS];
    const size_t ldk = a->ld[FV_WINDOW_K], ldv = a->ld[FV_WINDOW_V], at = base + r;
    const float *q = (const float *)c->p[FV_WINDOW_Q] + at * a->ld[FV_WINDOW_Q] + head * d;
    const float *k = (const float *)c->p[FV_WINDOW_K] + base * ldk + head * d;
    const float *v = (const float *)c->p[FV_WINDOW_V] + base * ldv + head * dv;
    const float *param = c->p[FV_WINDOW_PARAM];
    const uint32_t *region = a->table;
    float *out = (float *)c->p[FV_WINDOW_OUT] + at * a->ld[FV_WINDOW_OUT] + head * dv;
    float *s = c->scratch, max = -INFINITY, sum = 0.f;
    for (size_t j = 0; j < keys; j++) {
        s[j] = 0.f;
        for (size_t i = 0; i < d; i++)
            s[j] += q[i] * k[j * ldk + i];
        s[j] *= a->f[0];
        if (param)
            s[j] += param[(head * keys + r) * a->ld[FV_WINDOW_PARAM] + j];
        if (region && region[c->row0 + at] != region[c->row0 + base + j])
            s[j] -= 100.f;
        max = s[j] > max ? s[j] : max;
    }
    for (size_t i = 0; i < dv; i++)
        out[i] = 0.f;
    for (size_t j = 0; j < keys; j++) {
        const float p = expf(s[j] - max);
        sum += p;
        for (size_t i = 0; i < dv; i++)
            out[i] += p * v[j * ldv + i];
    }
    for (size_t i = 0; i < dv; i++)
        out[i] /= sum;
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
    return p->dim[FV_ATTN_KEYS] * sizeof(float);
}

const fv_kernel_hooks fv_h_wsoftmax_f32_ref = {.scratch = scratch_bytes};
