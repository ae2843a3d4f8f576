/* ref_softmax_grad_q.c: SOFTMAX_GRAD_Q: the gradient of the queries of softmax attention whose
 * queries and keys are different rows, and what SOFTMAX_GRAD_KV needs of them.
 *
 *   dim      rows (= queries), d, dv, keys; heads
 *   Q        ROW, heads * d wide          K  WHOLE, keys x (heads * d)
 *   FORWARD, DOUT  ROW, heads * dv wide   V  WHOLE, keys x (heads * dv)
 *   HIDDEN   ROW, heads * (keys + 1) wide, the result of MASK_KEYS that SOFTMAX read, or absent
 *   OUT      ROW, heads * (d + 2) wide: gradients of all heads; then a logarithm and a mean for
 *            each head, first all logarithms. Not another operand
 *   FORWARD  the result of SOFTMAX        f[0]  scale
 *
 *   s_j = f0 q.k_j + hidden[j];   logarithm = log sum_j exp(s_j);   mean = dout.forward
 *   dq = f0 sum_j exp(s_j - logarithm) (dout.v_j - mean) k_j
 *
 * The numbers that hide keys get no gradient. A query's result does not depend on how rows are
 * split into calls. */
#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t hidden(const fv_problem *p)
{
    return p->heads * (p->dim[FV_ATTN_KEYS] + 1);
}

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (p->dim[FV_ATTN_D] + 2);
}

static double flops(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_DIM_ROWS] * p->dim[FV_ATTN_KEYS] *
           (6. * p->dim[FV_ATTN_D] + 2. * p->dim[FV_ATTN_DV] + 24);
}

const fv_op fv_op_softmax_grad_q = {
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {[FV_QUERIES_GRAD_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_QUERIES_GRAD_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_QUERIES_GRAD_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_QUERIES_GRAD_HIDDEN] = {"HIDDEN", .columns = hidden},
                [FV_QUERIES_GRAD_FORWARD] = {"FORWARD", FV_ATTN_DV, .heads = true},
                [FV_QUERIES_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
                [FV_QUERIES_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_terms_softmax,
};

static double dot(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

/* Computes head h of row r of a call. */
static void attend(const fv_args *a, const fv_call *c, size_t r, size_t h)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t keys = a->prob.dim[FV_ATTN_KEYS], heads = a->prob.heads;
    const float *q = (const float *)c->p[FV_QUERIES_GRAD_Q] + r * a->ld[FV_QUERIES_GRAD_Q] + h * d;
    const float *hide = c->p[FV_QUERIES_GRAD_HIDDEN];
    const float *dout =
        (const float *)c->p[FV_QUERIES_GRAD_DOUT] + r * a->ld[FV_QUERIES_GRAD_DOUT] + h * dv;
    const float *forward =
        (const float *)c->p[FV_QUERIES_GRAD_FORWARD] + r * a->ld[FV_QUERIES_GRAD_FORWARD] + h * dv;
    float *out = (float *)c->p[FV_QUERIES_GRAD_OUT] + r * a->ld[FV_QUERIES_GRAD_OUT];
    const double mean = dot(dout, forward, dv);
    double max = -INFINITY, sum = 0;
    if (hide)
        hide += r * a->ld[FV_QUERIES_GRAD_HIDDEN] + h * (keys + 1);
    for (size_t i = 0; i < d; i++)
        out[h * d + i] = 0.f;
    for (int pass = 0; pass < 3; pass++)
        for (size_t j = 0; j < keys; j++) {
            const float *k =
                (const float *)c->p[FV_QUERIES_GRAD_K] + j * a->ld[FV_QUERIES_GRAD_K] + h * d;
            const float *v =
                (const float *)c->p[FV_QUERIES_GRAD_V] + j * a->ld[FV_QUERIES_GRAD_V] + h * dv;
            const double s = (double)a->f[0] * dot(q, k, d) + (hide ? (double)hide[j] : 0);
            if (pass == 0)
                max = fmax(max, s);
            else if (pass == 1)
                sum += exp(s - max);
            else
                for (size_t i = 0; i < d; i++)
                    out[h * d + i] += (float)((double)a->f[0] * exp(s - max) / sum *
                                              (dot(dout, v, dv) - mean) * (double)k[i]);
        }
    out[heads * d + h] = (float)(max + log(sum));
    out[heads * (d + 1) + h] = (float)mean;
}

void fv_k_softmax_grad_q_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < a->prob.heads; h++)
            attend(a, c, r, h);
}
