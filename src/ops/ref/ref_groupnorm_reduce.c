/* ref_groupnorm_reduce.c: GROUPNORM_REDUCE: mean and variance of every channel over the rows of a
 * grid, one partial per reduction group.
 *
 *   dim      rows (of the whole step), C, partials, groups (of channels, for the merge);
 *            prob.in: F32 or BF16
 *   IN       ROW, C wide
 *   PARTIAL  of the call's reduction group, 3 C floats: means, variances, and shares. A share is
 *            the fraction of all rows that the partial covers; each channel has its own copy
 *   f[0]     1 / rows
 *
 * The result is stored if c->first, else merged with the old PARTIAL. With the share s of the
 * call's rows, their mean m and (biased) variance v, the old share t, and f = s / (s + t),
 *
 *   variance (1 - f) + v f + (m - mean)^2 f (1 - f)   is the variance of both
 *   mean + (m - mean) f                               is their mean
 *
 * No term is negative, and no squares of means are subtracted, so the variance loses no digits if
 * the mean is far from 0. Before merging, kernels sum differences from one of the call's rows.
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_groupnorm_reduce = {
    .span = FV_SPAN_REDUCE,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_GROUPNORM_PARTIALS] = {"partials"},
            [FV_GROUPNORM_GROUPS] = {"groups"}},
    .operand = {[FV_MOMENTS_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_MOMENTS_PARTIAL] = {"PARTIAL", .columns = fv_columns_moments,
                                        .state_of = FV_OP_GROUPNORM_REDUCE}},
    .element_flops = 5,
    .terms = fv_terms_rows,
    .groups = FV_GROUPNORM_PARTIALS,
    .merge = FV_OP_GROUPNORM_MERGE,
};

/* Returns the element of channel i in row r. */
static double at(const fv_args *a, const fv_call *c, uint32_t r, uint32_t i)
{
    return (double)fv_value_get(c->p[FV_MOMENTS_IN], a->prob.in,
                                (size_t)r * a->ld[FV_MOMENTS_IN] + i);
}

void fv_k_groupnorm_reduce_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[FV_ROW_C];
    const float share = (float)c->rows * a->f[0];
    for (uint32_t i = 0; i < width; i++) {
        float *mean = (float *)c->p[FV_MOMENTS_PARTIAL] + i, *var = mean + width;
        float *all = var + width;
        double m = 0, v = 0;
        for (uint32_t r = 0; r < c->rows; r++)
            m += at(a, c, r, i) / c->rows;
        for (uint32_t r = 0; r < c->rows; r++)
            v += (at(a, c, r, i) - m) * (at(a, c, r, i) - m) / c->rows;
        if (c->first)
            *mean = *var = *all = 0.f;
        *all += share;
        const double f = (double)share / *all, delta = m - (double)*mean;
        *mean = (float)((double)*mean + delta * f);
        *var = (float)((double)*var * (1 - f) + v * f + delta * delta * f * (1 - f));
    }
}
