/* ref_layernorm.c: LAYERNORM: normalises every row to zero mean and unit variance, then scales and
 * shifts it.
 *
 *   dim     rows, C;  prob.in, prob.out: types of IN and OUT, F32 or BF16
 *   IN      ROW, C wide       OUT  ROW, C wide; may be IN
 *   WEIGHT  C floats          BIAS C floats
 *   f[0]    eps
 *
 *            C channels
 *   row i  | x x x x x x |    mean = sum(x) / C,  var = sum((x - mean)^2) / C  (biased)
 *                             y[c] = (x[c] - mean) / sqrt(var + eps) weight[c] + bias[c]
 *
 * Sums are float32, in two passes: the variance is computed from differences to the mean. A
 * constant row gives bias. A row's result does not depend on the other rows of a call.
 */
#include <math.h>

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_layernorm = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_LN_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_LN_WEIGHT] = {"WEIGHT", FV_ROW_C, .stored = FV_STORED_FLOATS,
                                  .nature = FV_NATURE_FACTOR},
                [FV_LN_BIAS] = {"BIAS", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_LN_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 8,
    .terms = fv_terms_row,
};

void fv_k_layernorm_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[1];
    const float *weight = c->p[FV_LN_WEIGHT], *bias = c->p[FV_LN_BIAS];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t in = r * a->ld[FV_LN_IN], out = r * a->ld[FV_LN_OUT];
        float mean = 0.f, var = 0.f;
        for (size_t i = 0; i < n; i++)
            mean += fv_value_get(c->p[FV_LN_IN], a->prob.in, in + i);
        mean /= (float)n;
        for (size_t i = 0; i < n; i++) {
            const float delta = fv_value_get(c->p[FV_LN_IN], a->prob.in, in + i) - mean;
            var += delta * delta;
        }
        const float scale = 1.f / sqrtf(var / (float)n + a->f[0]);
        for (size_t i = 0; i < n; i++) {
            const float delta = fv_value_get(c->p[FV_LN_IN], a->prob.in, in + i) - mean;
            fv_value_put(c->p[FV_LN_OUT], a->prob.out, out + i,
                         delta * scale * weight[i] + bias[i]);
        }
    }
}
