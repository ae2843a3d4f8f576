/* ref_mean_reduce.c: MEAN_REDUCE: the mean of the patch rows, one partial per reduction group.
 *
 *   dim      rows (of the whole step, prefix included), C, groups
 *   IN       ROW
 *   PARTIAL  C floats of the call's group
 *   u[0]     number of prefix rows, which are skipped
 *   f[0]     1 / (rows - prefix); LARGEST: a factor above 0
 *   flags    FV_FLAG_LARGEST, or none
 *
 *   partial (+)= f0 * sum of the call's rows i >= u0
 *   LARGEST: partial = max(partial, f0 * maximum of these rows); -INFINITY without rows
 *
 * The result is stored if c->first, else added. A call sums its own rows first, in order, so that
 * the partial is rounded once per call, however many tokens the call has.
 */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_mean_reduce = {
    .span = FV_SPAN_REDUCE,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_MEAN_GROUPS] = {"groups"}},
    .operand = {[FV_MEAN_IN] = {"IN", FV_ROW_C},
                [FV_MEAN_PARTIAL] = {"PARTIAL", FV_ROW_C, .state_of = FV_OP_MEAN_REDUCE}},
    .element_flops = 2,
    .terms = fv_terms_rows,
    .groups = FV_MEAN_GROUPS,
    .merge = FV_OP_MEAN_MERGE,
};

enum { RUN = 64 };

void fv_k_mean_reduce_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[1], prefix = a->u[0];
    const uint32_t skip = c->row0 >= prefix ? 0 : prefix - c->row0;
    const bool largest = a->prob.flags & FV_FLAG_LARGEST;
    float *partial = c->p[FV_MEAN_PARTIAL];
    for (uint32_t i0 = 0; i0 < width; i0 += RUN) {
        const uint32_t n = width - i0 < RUN ? width - i0 : RUN;
        float sum[RUN];
        for (uint32_t i = 0; i < RUN; i++)
            sum[i] = largest ? -INFINITY : 0.f;
        for (uint32_t r = skip; r < c->rows; r++) {
            const float *in = (const float *)c->p[FV_MEAN_IN] + (size_t)r * a->ld[FV_MEAN_IN] + i0;
            for (uint32_t i = 0; i < n; i++)
                sum[i] = !largest ? sum[i] + in[i] : in[i] > sum[i] ? in[i] : sum[i];
        }
        for (uint32_t i = 0; i < n; i++) {
            const float x = a->f[0] * sum[i], before = partial[i0 + i];
            if (largest)
                partial[i0 + i] = c->first || x > before ? x : before;
            else
                partial[i0 + i] = (c->first ? 0.f : before) + x;
        }
    }
}
