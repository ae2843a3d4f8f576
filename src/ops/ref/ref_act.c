/* ref_act.c: ACT: an activation as a separate step, for plans in which training or another step
 * also needs its input.
 *
 *   dim    rows, C
 *   IN     ROW, C wide, with SWIGLU 2C    OUT  ROW, C wide; may be IN without SWIGLU,
 *                                             unless it is BF16 by prob.out
 *   epi    one FV_EPI_* activation, or FV_EPI_SWIGLU
 *
 *   out[c] = act(in[c]);   SWIGLU: out[c] = silu(in[c]) in[C + c]
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_gemm.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_act = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ACT_IN] = {"IN", .columns = fv_columns_swiglu},
                [FV_ACT_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 20,
};

void fv_k_act_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const uint32_t epi = a->prob.epi;
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ACT_IN] + r * a->ld[FV_ACT_IN];
        for (size_t i = 0; i < n; i++) {
            const double y = epi & FV_EPI_SWIGLU ? fv_ref_activate(in[i], FV_EPI_SILU) * in[n + i]
                                                 : fv_ref_activate(in[i], epi);
            fv_value_put(c->p[FV_ACT_OUT], a->prob.out, r * a->ld[FV_ACT_OUT] + i, (float)y);
        }
    }
}
