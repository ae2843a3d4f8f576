/* ref_lattn_state_grad.c: LATTN_STATE_GRAD: the gradient of the state of linear attention, from the
 * queries that read it.
 *
 *   dim      rows, d, dv, keys, groups; heads; mech
 *   Q, STATE, PARAM, COS, SIN, GATE, f, u, flags  as in LATTN_APPLY
 *   FORWARD  ROW, heads * dv wide: the result of LATTN_APPLY
 *   DOUT     ROW, heads * dv wide: the gradient of FORWARD
 *   PARTIAL  the group's own partial, laid out like the state; MEAN_MERGE adds those of all groups
 *   col0, cols  heads
 *
 * do, dz, dw and mean are those of LATTN_APPLY_GRAD. The sums are over the call's rows i:
 *
 *   dS += f0 sum_i R phi(q_i)^T do_i
 *   dm += f0 sum_i dz_i phi(q_i)
 *   dw += f0 sum_i dw_i R phi(q_i)
 *   dvmean += sum_i g mean_i dout_i
 *
 * The gradients of `count` and `shift` are 0. With c->first, the partial is overwritten and not
 * read. Arithmetic is float32, with separate sums for blocks of rows. The order of additions
 * depends only on the rows of a call. */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"
#include "train/ref/training.h"

const fv_op fv_op_lattn_state_grad = {
    .span = FV_SPAN_REDUCE,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}, [FV_ATTN_GROUPS] = {"groups"}},
    .operand =
        {FV_LATTN_QUERY_OPERANDS, [FV_QUERY_GRAD_FORWARD] = {"FORWARD", FV_ATTN_DV, .heads = true},
         [FV_QUERY_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
         [FV_QUERY_GRAD_OUT] = {"PARTIAL", .columns = fv_lattn_state_columns}},
    .flops = fv_lattn_grad_flops,
    .terms = fv_lattn_reduce_terms,
    .groups = FV_ATTN_GROUPS,
    .merge = FV_OP_MEAN_MERGE,
    .joint = true,
};

#else
#include <string.h>

#include "train/ref/ref_lattn_grad.h"

/* Number of rows that are summed separately. */
enum { BLOCK = 64 };

/* Adds the contribution of one query. */
static void add_query(float *sum, const fv_args *a, const ref_query *q, const fv_lattn_state *l,
                      const float *f, const float *turned)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    for (uint32_t i = 0; i < FV_BLOCKS * d; i++) {
        for (uint32_t j = 0; j < dv; j++) {
            const uint32_t s = j / (dv / FV_STREAMS), row = (i / d ^ s) * d + i % d;
            sum[l->s + (size_t)row * dv + j] += a->f[0] * turned[i] * (q->scale[s] * q->dout[j]);
        }
        for (uint32_t s = 0; s < FV_STREAMS; s++)
            sum[l->m + (i / d ^ s) * d + i % d] += a->f[0] * q->dz[s] * f[i];
        if (FV_WANTS & FV_WANT_CENTRED)
            sum[l->w + i] += a->f[0] * q->dw * turned[i];
    }
    for (uint32_t j = 0; FV_WANTS & FV_WANT_CENTRED && j < dv; j++)
        sum[l->vmean + j] += q->mean * q->dout[j];
}

void FV_MECH_NAME(fv_k_lattn_state_grad_f32, ref)(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], width = FV_BLOCKS * d;
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, a->prob.dim[FV_ATTN_DV]);
    float *f = c->scratch, *turned = f + width, *block = turned + width, *sum = block + l.floats;
    for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
        float *part = (float *)c->p[FV_QUERY_GRAD_OUT] + h * l.floats;
        memset(block, 0, 2 * l.floats * sizeof *block);
        for (size_t r = 0; r < c->rows; r++) {
            const ref_query q = ref_query_at(a, c, r, h, &l, f, turned);
            add_query(block, a, &q, &l, f, turned);
            if ((r + 1) % BLOCK && r + 1 < c->rows)
                continue;
            for (size_t i = 0; i < l.floats; i++)
                sum[i] += block[i];
            memset(block, 0, l.floats * sizeof *block);
        }
        for (size_t i = 0; i < l.floats; i++)
            part[i] = c->first ? sum[i] : part[i] + sum[i];
    }
}

#endif
