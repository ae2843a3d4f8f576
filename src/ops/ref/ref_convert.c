/* ref_convert.c: CONVERT: converts rows from one float type to another.
 *
 *   dim   rows, C
 *   IN    ROW, C wide, of type prob.in       OUT  ROW, C wide, of type prob.out; not IN
 *   prob.in, prob.out  FV_F32, FV_F16, FV_BF16
 *
 *   out[i] = the value of the type nearest to in[i], ties to even
 *
 * Values that are too large become infinite, NaN stays NaN, subnormal values are kept.
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_convert = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_CONVERT_IN] = {"IN", FV_ROW_C}, [FV_CONVERT_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_convert_any_ref(const fv_args *a, const fv_call *c)
{
    const enum fv_type from = a->prob.in, to = a->prob.out;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            fv_value_put(c->p[FV_CONVERT_OUT], to, r * a->ld[FV_CONVERT_OUT] + i,
                         fv_value_get(c->p[FV_CONVERT_IN], from, r * a->ld[FV_CONVERT_IN] + i));
}
