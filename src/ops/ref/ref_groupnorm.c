/* ref_groupnorm.c: GROUPNORM: normalises every channel by the mean and variance of its group, then
 * scales and shifts it and applies an activation.
 *
 *   dim     rows, C;  prob.in, prob.out: types of IN and OUT, F32 or BF16
 *   IN      ROW, C wide           OUT  ROW, C wide; may be IN if the types are equal
 *   STATE   3 C floats, as ref_groupnorm_merge.c writes them: means, variances
 *   WEIGHT  C floats              BIAS C floats
 *   epi     none, FV_EPI_RELU or FV_EPI_SILU
 *   f[0]    eps
 *
 *   y[c] = act((x[c] - mean[c]) / sqrt(variance[c] + eps) weight[c] + bias[c])
 *
 * If the variance is 0, y is act(bias). Rows are computed one by one.
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_gemm.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_groupnorm = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_GN_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_GN_STATE] = {"STATE", .columns = fv_columns_moments,
                                 .state_of = FV_OP_GROUPNORM_REDUCE},
                [FV_GN_WEIGHT] = {"WEIGHT", FV_ROW_C, .stored = FV_STORED_FLOATS,
                                  .nature = FV_NATURE_FACTOR},
                [FV_GN_BIAS] = {"BIAS", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_GN_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 4,
};

void fv_k_groupnorm_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const float *mean = c->p[FV_GN_STATE], *var = mean + n;
    const float *weight = c->p[FV_GN_WEIGHT], *bias = c->p[FV_GN_BIAS];
    for (size_t r = 0; r < c->rows; r++)
        for (size_t i = 0; i < n; i++) {
            const float scale = 1.f / sqrtf(var[i] + a->f[0]);
            const float x = fv_value_get(c->p[FV_GN_IN], a->prob.in, r * a->ld[FV_GN_IN] + i);
            const float y = (x - mean[i]) * scale * weight[i] + bias[i];
            fv_value_put(c->p[FV_GN_OUT], a->prob.out, r * a->ld[FV_GN_OUT] + i,
                         (float)fv_ref_activate((double)y, a->prob.epi));
        }
}
