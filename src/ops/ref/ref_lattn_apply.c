/* ref_lattn_apply.c: LATTN_APPLY: computes the output of linear attention for queries, from the
 * state.
 *
 *   dim    rows, d, dv; heads; mech
 *   Q      ROW, heads * d wide        OUT  ROW, heads * dv wide; not Q. Each F32 or BF16
 *   STATE  merged, as LATTN_REDUCE describes it
 *   PARAM, COS, SIN, u[0]  as for LATTN_REDUCE, with tables for the queries' tokens
 *   GATE   ROW, heads wide, which multiplies the output. FV_FLAG_GATED
 *   f[0]   scale: S, m and w are multiplied by it
 *   f[1]   eps, added to the mean-form denominator z
 *   f[2]   the mechanism's constant
 *   col0, cols  heads
 *
 *   o = R phi(q_i) S;   z = phi(q_i).m;   w = R phi(q_i).w;   out_i = norm(o, z, w, vmean, eps)
 *   FV_FLAG_UNNORMALISED:                                     out_i = o, for uncentred values
 *
 * mech/mech.h has the equations of o and z with several blocks and streams, and of norm. eps is at
 * least FLT_MIN, so that a row whose weights are all 0 gives 0. Stream 1 has the second half of the
 * value channels. With FV_WANT_SHIFT, q + shift - max replaces q, where max is over the row's
 * channels, and eps is multiplied by e^-max: numerator and denominator change by the same factor.
 *
 * With prob.acc BF16 features and f0 S may be rounded to bfloat16 before they are multiplied to o;
 * features, z, w and all sums are float32.
 *
 * A row's result does not depend on how rows and heads are split into calls.
 */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"

static double flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * n.rows * n.blocks * (2 * n.d * n.dv + 3 * n.d + n.powers + n.centred);
}

static double terms(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.blocks * n.d;
}

const fv_op fv_op_lattn_apply = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {FV_LATTN_QUERY_OPERANDS, [FV_APPLY_Q].narrow = true,
                [FV_APPLY_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = flops,
    .terms = terms,
    .multiplies = FV_MULTIPLIES_ROWS,
    .headroom = FV_HEADROOM_DIVISOR,
};

#else
#include "ops/ref/ref_features.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_lattn.h"

/* The weights of each stream's o, and of vmean, in the output. */
typedef struct weights {
    float scale[FV_STREAMS], mean;
} weights;

static weights output_scales(const fv_args *a, const float *state, const fv_lattn_state *l,
                             const float *f, const float *turned, const ref_row *row)
{
    const uint32_t d = row->d;
    const bool normalise = !(a->prob.flags & FV_FLAG_UNNORMALISED);
    weights t = {.mean = 0.f};
    float eps = fv_max(a->f[1], FLT_MIN), w = 0.f;
    if (row->shift && a->f[1] > 0.f)
        eps = fv_max(FLT_MIN, a->f[1] * expf(-ref_statistics(row, 1).stat[0]));
#if FV_WANTS & FV_WANT_CENTRED
    for (uint32_t i = 0; i < FV_BLOCKS * d; i++)
        w += turned[i] * (a->f[0] * state[l->w + i]);
#endif
    for (uint32_t s = 0; s < FV_STREAMS; s++) {
        float z = 0.f;
        for (uint32_t b = 0; b < FV_BLOCKS; b++) {
            for (uint32_t i = 0; i < d; i++)
                z += f[b * d + i] * (a->f[0] * state[l->m + (b ^ s) * d + i]);
        }
        t.scale[s] = normalise ? fv_norm(z, eps) : 1.f;
#if FV_WANTS & FV_WANT_CENTRED
        t.mean = normalise ? fv_norm_mean(z, w, eps) : w;
#endif
    }
    (void)turned, (void)w;
    return t;
}

void FV_MECH_NAME(fv_k_lattn_apply_f32, ref)(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const fv_lattn_state l = fv_lattn_layout(FV_BLOCKS, FV_WANTS, d, dv);
    const bool shifted = FV_WANTS & FV_WANT_SHIFT && !(a->prob.flags & FV_FLAG_UNNORMALISED);
    float *f = c->scratch, *turned = f + FV_BLOCKS * d;
    for (size_t r = 0; r < c->rows; r++) {
        for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
            const float *state = (const float *)c->p[FV_APPLY_STATE] + h * l.floats;
            const size_t out = r * a->ld[FV_APPLY_OUT] + h * dv;
            const float gate = ref_gate_at(a, c, r, h);
            const ref_row row = ref_row_at(a, c, r, h, a->f[2], shifted ? state + l.shift : NULL);
            ref_features(f, &row, 1);
            for (uint32_t i = 0; i < FV_BLOCKS * d; i++)
                turned[i] = f[i];
            ref_rotate(turned, &row);
            const weights t = output_scales(a, state, &l, f, turned, &row);
            for (uint32_t j = 0; j < dv; j++) {
                const uint32_t s = j / (dv / FV_STREAMS);
                float o = 0.f;
                for (uint32_t b = 0; b < FV_BLOCKS; b++) {
                    for (uint32_t i = 0; i < d; i++)
                        o +=
                            turned[b * d + i] * (a->f[0] * state[l.s + ((b ^ s) * d + i) * dv + j]);
                }
                o *= t.scale[s];
                if (FV_WANTS & FV_WANT_CENTRED)
                    o += t.mean * state[l.vmean + j];
                fv_value_put(c->p[FV_APPLY_OUT], a->type[FV_APPLY_OUT], out + j, gate * o);
            }
        }
    }
}

#if FV_PARAMS == 0 && !FV_STAT_WIDE
void FV_MECH_NAME(fv_features, ref)(float *out, size_t ldo, const float *x, size_t ldx, size_t rows,
                                    size_t d, int query)
{
    for (size_t r = 0; r < rows; r++) {
        const ref_row row = {
            .x = x + r * ldx, .type = FV_F32, .heads = 1, .d = (uint32_t)d, .gate = 1.f};
        ref_features(out + r * ldo, &row, query);
    }
}
#endif

#endif
