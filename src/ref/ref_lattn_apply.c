/* ref_lattn_apply.c: LATTN_APPLY: queries read the state of linear attention.
 *
 *   dim    rows, d, dv; heads
 *   Q      ROW, heads * d wide        OUT  ROW, heads * dv wide; not Q
 *   STATE  merged, as LATTN_REDUCE describes it: per head S [d][dv], m [d]
 *   f[0]   factor of the output with FV_FLAG_UNNORMALISED
 *   f[1]   eps, added to the mean-form denominator z
 *   col0, cols  heads
 *
 *   o = phi(q_i) S;   z = phi(q_i).m;   out_i = norm(o, z, eps), for ELU1 o / (z + eps)
 *   FV_FLAG_UNNORMALISED:               out_i = f0 o
 *
 * A row's result does not depend on how rows and heads are split into calls.
 */
#include "cpu_kernels.h"
#include "mech/mech.h"

void FV_MECH_NAME(fv_k_lattn_apply_f32, ref)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    for (size_t r = 0; r < c->rows; r++) {
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            const float *q = (const float *)c->p[FV_APPLY_Q] + r * a->ld[FV_APPLY_Q] + h * d;
            const float *state = (const float *)c->p[FV_APPLY_STATE] + h * d * (dv + 1);
            float *out = (float *)c->p[FV_APPLY_OUT] + r * a->ld[FV_APPLY_OUT] + h * dv;
            float z = 0.f;
            for (size_t i = 0; i < d; i++)
                z += fv_phi(q[i]) * state[d * dv + i];
            for (size_t j = 0; j < dv; j++) {
                float o = 0.f;
                for (size_t i = 0; i < d; i++)
                    o += fv_phi(q[i]) * state[i * dv + j];
                out[j] =
                    a->prob.flags & FV_FLAG_UNNORMALISED ? a->f[0] * o : fv_norm(o, z, a->f[1]);
            }
        }
    }
}
