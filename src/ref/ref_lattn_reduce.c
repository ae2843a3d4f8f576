/* ref_lattn_reduce.c: LATTN_REDUCE: key and value rows summed into the state of linear attention.
 *
 *   dim      rows (= keys of the step), d, dv, keys, groups; heads
 *   K        ROW, heads * d wide          V  ROW, heads * dv wide
 *   PARTIAL  the group's own heads * (d * dv + d) floats
 *   f[0]     1 / keys: the state is a mean, so that its size does not depend on the keys
 *   col0, cols  heads
 *
 *             head 0              head 1
 *   PARTIAL | S [d][dv] | m [d] | S [d][dv] | m [d] | ..
 *
 *   S += f0 sum_j phi(k_j)^T v_j;   m += f0 sum_j phi(k_j)       over the call's rows j
 *
 * With c->first the state is stored, not added to, and not read. Float32: a call sums blocks of
 * its rows on their own, unscaled, and adds each block once to the state. The order of additions
 * depends on the rows of a call only.
 */
#include <string.h>

#include "cpu_kernels.h"
#include "mech/mech.h"

static size_t sum_floats(const fv_problem *p)
{
    return (size_t)p->dim[FV_ATTN_D] * (p->dim[FV_ATTN_DV] + 1);
}

void FV_MECH_NAME(fv_k_lattn_reduce_f32, ref)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t size = sum_floats(&a->prob);
    float *sum = c->scratch;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        float *state = (float *)c->p[FV_REDUCE_PARTIAL] + h * size;
        memset(sum, 0, size * sizeof *sum);
        for (size_t r = 0; r < c->rows; r++) {
            const float *k = (const float *)c->p[FV_REDUCE_K] + r * a->ld[FV_REDUCE_K] + h * d;
            const float *v = (const float *)c->p[FV_REDUCE_V] + r * a->ld[FV_REDUCE_V] + h * dv;
            for (size_t i = 0; i < d; i++) {
                const float f = fv_phi(k[i]);
                sum[d * dv + i] += f;
                for (size_t j = 0; j < dv; j++)
                    sum[i * dv + j] += f * v[j];
            }
        }
        for (size_t i = 0; i < size; i++)
            state[i] = a->f[0] * sum[i] + (c->first ? 0.f : state[i]);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return sum_floats(p) * sizeof(float);
}

const fv_kernel_hooks FV_MECH_NAME(fv_h_lattn_reduce_f32, ref) = {.scratch = scratch_bytes};
