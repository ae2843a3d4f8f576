/* ref_lattn_apply_grad.c: LATTN_APPLY_GRAD: the gradient of the queries of linear attention.
 *
 *   Q, STATE, PARAM, COS, SIN, GATE, dim, f, u, flags  as in LATTN_APPLY
 *   FORWARD  ROW, heads * dv wide: the result of LATTN_APPLY
 *   DOUT     ROW, heads * dv wide: the gradient of FORWARD
 *   OUT      ROW, heads * d wide: the gradient of q; must not be another operand
 *   col0, cols  heads
 *
 * o, z and w are those of LATTN_APPLY; S, m and w' are f0 times the state's; g is the gate. norm'
 * and mean' are the derivatives of norm and of mean, the factor of vmean.
 *
 *   do = g norm dout
 *   dz = g (norm'(z) dout.o + mean'(z) dout.vmean)
 *   dw = g mean'(w) dout.vmean
 *   dphi = R^T (S do + dw w') + dz m
 *   dq = dphi, propagated through the features and their statistics
 *
 * o need not be recomputed, because g norm dout.o = dout.FORWARD - g mean dout.vmean. A query whose
 * weights are all 0 (z < FLT_MIN) has no gradient, neither for its own features nor for those of
 * the keys. A row's result does not depend on how rows and heads are split into calls. */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"
#include "train/ref/training.h"

const fv_op fv_op_lattn_apply_grad = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand =
        {FV_LATTN_QUERY_OPERANDS, [FV_QUERY_GRAD_FORWARD] = {"FORWARD", FV_ATTN_DV, .heads = true},
         [FV_QUERY_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
         [FV_QUERY_GRAD_OUT] = {"OUT", FV_ATTN_D, .heads = true}},
    .flops = fv_lattn_grad_flops,
    .terms = fv_lattn_grad_terms,
    .joint = true,
};

#else
#include "train/ref/ref_lattn_grad.h"

/* Computes the gradients of the features of one row and head. */
static void features_grad(float *df, const fv_args *a, const ref_query *q, const fv_lattn_state *l)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    for (uint32_t i = 0; i < FV_BLOCKS * d; i++) {
        df[i] = FV_WANTS & FV_WANT_CENTRED ? q->dw * (a->f[0] * q->state[l->w + i]) : 0.f;
        for (uint32_t j = 0; j < dv; j++) {
            const uint32_t s = j / (dv / FV_STREAMS), row = (i / d ^ s) * d + i % d;
            df[i] += q->scale[s] * q->dout[j] * (a->f[0] * q->state[l->s + (size_t)row * dv + j]);
        }
    }
    ref_rotate_back(df, &q->row);
    for (uint32_t i = 0; i < FV_BLOCKS * d; i++) {
        for (uint32_t s = 0; s < FV_STREAMS; s++)
            df[i] += q->dz[s] * (a->f[0] * q->state[l->m + (i / d ^ s) * d + i % d]);
    }
}

void FV_MECH_NAME(fv_k_lattn_apply_grad_f32, ref)(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], width = FV_BLOCKS * d;
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, a->prob.dim[FV_ATTN_DV]);
    float *f = c->scratch, *turned = f + width, *df = turned + width;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_QUERY_GRAD_OUT] + r * a->ld[FV_QUERY_GRAD_OUT];
        for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
            ref_query q = ref_query_at(a, c, r, h, &l, f, turned);
            uint32_t from, to;
            ref_grad_heads(&q.row, h, &from, &to);
            for (uint32_t i = from; i < to; i++) {
                const ref_query other = ref_query_at(a, c, r, i, &l, f, turned);
                features_grad(df + (i - from) * width, a, &other, &l);
            }
            ref_row_grad(out + (size_t)h * d, &q.row, 1, df);
        }
    }
}

static bool applies(const fv_problem *p)
{
    return fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

/* Returns the scratch for all kernels that share these hooks: features, and two states or the
 * gradients of features. */
static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const size_t width = (size_t)FV_BLOCKS * d;
    (void)knobs, (void)rows;
    if (p->op == FV_OP_LATTN_STATE_GRAD)
        return 2 * (width + fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, dv).floats) * sizeof(float);
    return (2 + (FV_STAT_WIDE ? p->heads : 1)) * width * sizeof(float);
}

const fv_kernel_hooks FV_MECH_NAME(fv_h_lattn_grad_f32, ref) = {.applies = applies,
                                                                .scratch = scratch_bytes};

#endif
