/* ref_gates.c: GATES: computes gates from a token's logits for the heads: the softmax of each row,
 * times f[0], so that a row of gates sums to f[0].
 *
 *   dim  rows, heads
 *   IN   ROW, heads wide        OUT  ROW, heads wide; may be IN
 *
 *   p[h] = exp(x[h] - max_h x[h]);   out[h] = p[h] / sum_h p[h] * f[0]
 *
 * f[0] is 1 in the SLA paper. With f[0] = heads, gates are 1 if logits are equal, so that untrained
 * gates change nothing.
 *
 * A NaN makes only its own row NaN. A row's result does not depend on the other rows of a call.
 */
#include <math.h>

#include "ops/contracts/linear_attention.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_gates = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"heads"}},
    .operand = {[FV_GATES_IN] = {"IN", FV_ROW_C}, [FV_GATES_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 10,
    .terms = fv_terms_row,
};

void fv_k_gates_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_GATES_IN] + r * a->ld[FV_GATES_IN];
        float *y = (float *)c->p[FV_GATES_OUT] + r * a->ld[FV_GATES_OUT];
        float max = -INFINITY, sum = 0.f;
        for (size_t i = 0; i < n; i++)
            max = x[i] > max ? x[i] : max;
        for (size_t i = 0; i < n; i++)
            sum += y[i] = expf(x[i] - max);
        for (size_t i = 0; i < n; i++)
            y[i] = y[i] / sum * a->f[0];
    }
}
