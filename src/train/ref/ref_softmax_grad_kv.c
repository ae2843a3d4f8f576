/* ref_softmax_grad_kv.c: SOFTMAX_GRAD_KV: the gradients of the keys and values of softmax attention
 * whose queries and keys are different rows.
 *
 *   dim      rows (= keys), d, dv, queries; heads
 *   K        ROW, heads * d wide          Q  WHOLE, queries x (heads * d)
 *   V        ROW, heads * dv wide         DOUT  WHOLE, queries x (heads * dv)
 *   HIDDEN   WHOLE, queries x (heads * (rows + 1)), the result of MASK_KEYS, or absent
 *   STATE    WHOLE, queries x (2 heads): the last columns of SOFTMAX_GRAD_Q's result
 *   OUT      ROW, heads * (d + dv) wide: gradients of the keys of all heads, then of the values;
 * not another operand f[0]     scale
 *
 *   p_i = exp(f0 q_i.k + hidden_i[j] - logarithm_i),  where j is the number of the key
 *   dk = f0 sum_i p_i (dout_i.v - mean_i) q_i;   dv = sum_i p_i dout_i
 *
 * A key's result does not depend on how rows are split into calls. */
#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t hidden(const fv_problem *p)
{
    return p->heads * (p->dim[FV_DIM_ROWS] + 1);
}

static uint32_t state(const fv_problem *p)
{
    return 2u * p->heads;
}

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]);
}

static double flops(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_DIM_ROWS] * p->dim[FV_ATTN_KEYS] *
           (4. * (p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]) + 16);
}

const fv_op fv_op_softmax_grad_kv = {
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"queries", FV_DIM_TOKENS}},
    .operand = {[FV_KEYS_GRAD_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_KEYS_GRAD_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_KEYS_GRAD_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_KEYS_GRAD_HIDDEN] = {"HIDDEN", .columns = hidden},
                [FV_KEYS_GRAD_STATE] = {"STATE", .columns = state},
                [FV_KEYS_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
                [FV_KEYS_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_terms_softmax,
    .joint = true,
};

/* Computes head h of row r of a call. */
static void attend(const fv_args *a, const fv_call *c, size_t r, size_t h)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t heads = a->prob.heads, keys = a->prob.dim[FV_DIM_ROWS];
    const float *k = (const float *)c->p[FV_KEYS_GRAD_K] + r * a->ld[FV_KEYS_GRAD_K] + h * d;
    const float *v = (const float *)c->p[FV_KEYS_GRAD_V] + r * a->ld[FV_KEYS_GRAD_V] + h * dv;
    float *out = (float *)c->p[FV_KEYS_GRAD_OUT] + r * a->ld[FV_KEYS_GRAD_OUT];
    float *dk = out + h * d, *dvalue = out + heads * d + h * dv;
    for (size_t i = 0; i < d; i++)
        dk[i] = 0.f;
    for (size_t i = 0; i < dv; i++)
        dvalue[i] = 0.f;
    for (size_t n = 0; n < a->prob.dim[FV_ATTN_KEYS]; n++) {
        const float *q = (const float *)c->p[FV_KEYS_GRAD_Q] + n * a->ld[FV_KEYS_GRAD_Q] + h * d;
        const float *dout =
            (const float *)c->p[FV_KEYS_GRAD_DOUT] + n * a->ld[FV_KEYS_GRAD_DOUT] + h * dv;
        const float *of_query =
            (const float *)c->p[FV_KEYS_GRAD_STATE] + n * a->ld[FV_KEYS_GRAD_STATE];
        const float *hide = c->p[FV_KEYS_GRAD_HIDDEN];
        double s = 0, dp = 0;
        for (size_t i = 0; i < d; i++)
            s += (double)q[i] * k[i];
        for (size_t i = 0; i < dv; i++)
            dp += (double)dout[i] * v[i];
        s *= (double)a->f[0];
        if (hide)
            s += (double)hide[n * a->ld[FV_KEYS_GRAD_HIDDEN] + h * (keys + 1) + c->row0 + r];
        const double p = exp(s - (double)of_query[h]);
        const double ds = (double)a->f[0] * p * (dp - (double)of_query[heads + h]);
        for (size_t i = 0; i < d; i++)
            dk[i] += (float)(ds * (double)q[i]);
        for (size_t i = 0; i < dv; i++)
            dvalue[i] += (float)(p * (double)dout[i]);
    }
}

void fv_k_softmax_grad_kv_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < a->prob.heads; h++)
            attend(a, c, r, h);
}
