/* ref_take.c: TAKE: copies consecutive rows of a complete tensor.
 *
 *   dim   rows (copied), C
 *   IN    at its base    OUT  ROW; not IN
 *   u[0]  first row copied
 *
 *   out[r] = in[u0 + r]
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_take = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_TAKE_IN] = {"IN", FV_ROW_C, .picked = true, .narrow = true},
                [FV_TAKE_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 2,
};

void fv_k_take_f32_ref(const fv_args *a, const fv_call *c)
{
    const enum fv_type from = a->prob.in, to = a->prob.out;
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t row = (size_t)a->u[0] + c->row0 + r;
        for (uint32_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            fv_value_put(c->p[FV_TAKE_OUT], to, (size_t)r * a->ld[FV_TAKE_OUT] + i,
                         fv_value_get(c->p[FV_TAKE_IN], from, row * a->ld[FV_TAKE_IN] + i));
    }
}
