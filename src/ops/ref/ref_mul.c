/* ref_mul.c: MUL: multiplies rows element by element.
 *
 *   dim    rows, C
 *   A, B   ROW, C wide        OUT  ROW, C wide; may be A unless it is BF16 by prob.out
 *   flags  FV_FLAG_SILU
 *
 *   out[i] = a[i] b[i];   SILU: a[i] silu(b[i]),  silu(x) = x / (1 + exp(-x))
 */
#include <math.h>

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_mul = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_MUL_A] = {"A", FV_ROW_C},
                [FV_MUL_B] = {"B", FV_ROW_C},
                [FV_MUL_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 2,
    .grows = true,
};

void fv_k_mul_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MUL_A] + r * a->ld[FV_MUL_A];
        const float *b = (const float *)c->p[FV_MUL_B] + r * a->ld[FV_MUL_B];
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            const float gate = a->prob.flags & FV_FLAG_SILU ? b[i] / (1.f + expf(-b[i])) : b[i];
            fv_value_put(c->p[FV_MUL_OUT], a->prob.out, r * a->ld[FV_MUL_OUT] + i, x[i] * gate);
        }
    }
}
