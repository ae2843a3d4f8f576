/* ref_lattn_reduce_grad.c: LATTN_REDUCE_GRAD: the gradients of keys and values of linear attention.
 *
 *   K, V, PARAM, COS, SIN, GATE, dim, f, u, flags  as in LATTN_REDUCE
 *   STATE   the merged state of all keys
 *   DSTATE  its gradient, merged, in the format of LATTN_STATE_GRAD
 *   OUT     ROW, heads * (d + dv) wide: gradients of k, then of v; must not be another operand
 *   col0, cols  heads
 *
 * For each key j with gate g:
 *
 *   dphi_j = f0 (R^T (dS (v_j - vmean) + dw) + dm)
 *   dk_j = g dphi_j, propagated through the features and their statistics
 *   dv_j = f0 (g R phi(k_j) dS + dvmean - w dS)
 *
 * Without FV_WANT_CENTRED, vmean, w and their gradients are 0. A row's result does not depend on
 * how rows and heads are split into calls. */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]);
}

static double flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * n.rows * n.blocks * (4 * n.d * n.dv + 6 * n.d + 2 * n.powers + n.centred);
}

const fv_op fv_op_lattn_reduce_grad = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {FV_LATTN_KEY_GRAD_OPERANDS, [FV_KEY_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_lattn_grad_terms,
    .joint = true,
};

#else
#include "train/ref/ref_lattn_grad.h"

static void values_grad(float *out, const fv_args *a, const ref_key *k, const fv_lattn_state *l,
                        float *f)
{
    const uint32_t dv = a->prob.dim[FV_ATTN_DV], width = FV_BLOCKS * a->prob.dim[FV_ATTN_D];
    ref_rotate(f, &k->row);
    for (uint32_t j = 0; j < dv; j++) {
        float sum = 0.f, mean = FV_WANTS & FV_WANT_CENTRED ? k->dstate[l->vmean + j] : 0.f;
        for (uint32_t i = 0; i < width; i++) {
            const float ds = k->dstate[l->s + (size_t)i * dv + j];
            sum += k->row.gate * f[i] * ds;
            if (FV_WANTS & FV_WANT_CENTRED)
                mean -= k->state[l->w + i] * ds;
        }
        out[j] = a->f[0] * (sum + mean);
    }
}

void FV_MECH_NAME(fv_k_lattn_reduce_grad_f32, ref)(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t width = FV_BLOCKS * d;
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, dv);
    float *f = c->scratch, *df = f + width;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_KEY_GRAD_OUT] + r * a->ld[FV_KEY_GRAD_OUT];
        for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
            ref_key k = ref_key_at(a, c, r, h, &l, f, df);
            uint32_t from, to;
            ref_grad_heads(&k.row, h, &from, &to);
            values_grad(out + (size_t)a->prob.heads * d + (size_t)h * dv, a, &k, &l, f);
            for (uint32_t i = from; i < to; i++) {
                const ref_key other = ref_key_at(a, c, r, i, &l, f, df + (i - from) * width);
                for (uint32_t x = 0; x < width; x++)
                    df[(i - from) * width + x] *= other.row.gate;
            }
            ref_row_grad(out + (size_t)h * d, &k.row, 0, df);
        }
    }
}

#endif
