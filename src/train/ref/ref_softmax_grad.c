/* ref_softmax_grad.c: SOFTMAX_GRAD: the gradients of q, k and v of softmax attention.
 *
 *   dim      rows (= queries = keys), d, dv, keys; heads
 *   Q, K     ROW, heads * d wide      V, FORWARD, DOUT  ROW, heads * dv wide
 *   OUT      ROW, heads * (2 d + dv) wide: gradients of q, of k, of v; must not be another operand
 *   FORWARD  the result of SOFTMAX
 *   f[0]     scale
 *   col0, cols  heads; a call covers all rows
 *
 *   p_ij = exp(f0 q_i.k_j) / sum_j exp(f0 q_i.k_j);   ds_ij = p_ij (dout_i.v_j - dout_i.out_i)
 *   dq_i = f0 sum_j ds_ij k_j;   dk_j = f0 sum_i ds_ij q_i;   dv_j = sum_i p_ij dout_i
 *
 * Attention is not causal. Arithmetic is float32, with separate sums for blocks of tokens. A kernel
 * stores only the scores of a bounded number of queries and keys, for any number of rows. */
#include <math.h>
#include <string.h>

#include "train/ref/ref_vectors.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (2 * p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]);
}

static double flops(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_DIM_ROWS] * p->dim[FV_ATTN_KEYS] *
           (2. * (3. * p->dim[FV_ATTN_D] + 2. * p->dim[FV_ATTN_DV]) + 12);
}

const fv_op fv_op_softmax_grad = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_SAME}},
    .operand = {[FV_SOFTMAX_GRAD_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_SOFTMAX_GRAD_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_SOFTMAX_GRAD_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_SOFTMAX_GRAD_FORWARD] = {"FORWARD", FV_ATTN_DV, .heads = true},
                [FV_SOFTMAX_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
                [FV_SOFTMAX_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_terms_softmax,
    .joint = true,
};

/* Number of queries that are summed separately for a key. The sums are then added, which bounds the
 * rounding error. */
enum { BLOCK = 64 };

/* One head; ld is as in fv_args. */
typedef struct head {
    const float *q, *k, *v, *forward, *dout;
    float *dq, *dk, *dv;
    const uint32_t *ld;
    size_t rows, d, width_v; /* width_v: number of value channels */
    float scale;
} head;

static float score(const head *h, size_t i, size_t j)
{
    return h->scale * fv_ref_dot(h->q + i * h->ld[FV_SOFTMAX_GRAD_Q],
                                 h->k + j * h->ld[FV_SOFTMAX_GRAD_K], h->d);
}

/* Computes the largest score of a query, and the sum of exp(score - largest). */
static void statistics(const head *h, size_t i, float *max, float *sum)
{
    *max = -INFINITY;
    *sum = 0.f;
    for (size_t j = 0; j < h->rows; j++)
        *max = fmaxf(*max, score(h, i, j));
    for (size_t j0 = 0; j0 < h->rows; j0 += BLOCK) {
        float part = 0.f;
        for (size_t j = j0; j < h->rows && j < j0 + BLOCK; j++)
            part += expf(score(h, i, j) - *max);
        *sum += part;
    }
}

/* Processes queries [i0, i0 + n) and all keys. `own` is a buffer for the gradients of one key. */
static void block(const head *h, size_t i0, size_t n, float *own)
{
    const size_t ld = h->ld[FV_SOFTMAX_GRAD_OUT];
    float max[BLOCK], sum[BLOCK], whole[BLOCK];
    for (size_t r = 0; r < n; r++) {
        statistics(h, i0 + r, &max[r], &sum[r]);
        whole[r] = fv_ref_dot(h->dout + (i0 + r) * h->ld[FV_SOFTMAX_GRAD_DOUT],
                              h->forward + (i0 + r) * h->ld[FV_SOFTMAX_GRAD_FORWARD], h->width_v);
        memset(h->dq + (i0 + r) * ld, 0, h->d * sizeof(float));
    }
    for (size_t j = 0; j < h->rows; j++) {
        float *dk = own, *dv = own + h->d;
        memset(own, 0, (h->d + h->width_v) * sizeof *own);
        for (size_t r = 0; r < n; r++) {
            const size_t i = i0 + r;
            const float *dout = h->dout + i * h->ld[FV_SOFTMAX_GRAD_DOUT];
            const float p = expf(score(h, i, j) - max[r]) / sum[r];
            const float dp = fv_ref_dot(dout, h->v + j * h->ld[FV_SOFTMAX_GRAD_V], h->width_v);
            const float ds = h->scale * p * (dp - whole[r]);
            fv_ref_axpy(h->dq + i * ld, h->k + j * h->ld[FV_SOFTMAX_GRAD_K], h->d, ds);
            fv_ref_axpy(dk, h->q + i * h->ld[FV_SOFTMAX_GRAD_Q], h->d, ds);
            fv_ref_axpy(dv, dout, h->width_v, p);
        }
        if (i0 == 0) {
            memset(h->dk + j * ld, 0, h->d * sizeof(float));
            memset(h->dv + j * ld, 0, h->width_v * sizeof(float));
        }
        fv_ref_axpy(h->dk + j * ld, dk, h->d, 1.f);
        fv_ref_axpy(h->dv + j * ld, dv, h->width_v, 1.f);
    }
}

void fv_k_softmax_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV], heads = a->prob.heads;
    float *out = c->p[FV_SOFTMAX_GRAD_OUT];
    for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
        const head h = {.q = (const float *)c->p[FV_SOFTMAX_GRAD_Q] + i * d,
                        .k = (const float *)c->p[FV_SOFTMAX_GRAD_K] + i * d,
                        .v = (const float *)c->p[FV_SOFTMAX_GRAD_V] + i * dv,
                        .forward = (const float *)c->p[FV_SOFTMAX_GRAD_FORWARD] + i * dv,
                        .dout = (const float *)c->p[FV_SOFTMAX_GRAD_DOUT] + i * dv,
                        .dq = out + i * d,
                        .dk = out + (heads + i) * d,
                        .dv = out + 2 * heads * d + i * dv,
                        .ld = a->ld,
                        .rows = c->rows,
                        .d = d,
                        .width_v = dv,
                        .scale = a->f[0]};
        for (size_t i0 = 0; i0 < c->rows; i0 += BLOCK)
            block(&h, i0, c->rows - i0 < BLOCK ? c->rows - i0 : BLOCK, c->scratch);
    }
}

static bool applies(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_CAUSAL) && p->dim[FV_DIM_ROWS] == p->dim[FV_ATTN_KEYS];
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return ((size_t)p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]) * sizeof(float);
}

const fv_kernel_hooks fv_h_softmax_grad_f32_ref = {.applies = applies, .scratch = scratch_bytes};
