/* ref_lattn_gate_grad.c: LATTN_GATE_GRAD: the gradients of the keys' gates of linear attention.
 *
 *   dim, f, u, flags, all operands except OUT  as in LATTN_REDUCE_GRAD; FV_FLAG_GATED is set
 *   OUT  ROW, heads wide: each gate times its gradient, as GATES_GRAD reads it
 *   col0, cols  heads
 *
 *   out_jh = g phi(k_j).dphi_j      with g and dphi of LATTN_REDUCE_GRAD
 *
 * The gates of the queries are factors of the output, so HEAD_DOT computes their gradients. A row's
 * result does not depend on how rows and heads are split into calls. */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"
#include "train/ref/training.h"

const fv_op fv_op_lattn_gate_grad = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {FV_LATTN_KEY_GRAD_OPERANDS, [FV_KEY_GRAD_OUT] = {"OUT", .heads = true}},
    .flops = fv_lattn_grad_flops,
    .terms = fv_lattn_grad_terms,
    .joint = true,
};

#else
#include "train/ref/ref_lattn_grad.h"

void FV_MECH_NAME(fv_k_lattn_gate_grad_f32, ref)(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], width = FV_BLOCKS * d;
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, a->prob.dim[FV_ATTN_DV]);
    float *f = c->scratch, *df = f + width;
    for (size_t r = 0; r < c->rows; r++) {
        for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
            const ref_key k = ref_key_at(a, c, r, h, &l, f, df);
            float sum = 0.f;
            for (uint32_t i = 0; i < width; i++)
                sum += f[i] * df[i];
            ((float *)c->p[FV_KEY_GRAD_OUT])[r * a->ld[FV_KEY_GRAD_OUT] + h] = k.row.gate * sum;
        }
    }
}

#endif
