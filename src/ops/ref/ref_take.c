/* ref_take.c: TAKE: copies consecutive rows of a complete tensor.
 *
 *   dim   rows (copied), C
 *   IN    at its base    OUT  ROW; not IN
 *   u[0]  first row copied
 *
 *   out[r] = in[u0 + r]
 */
#include <string.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_take = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_TAKE_IN] = {"IN", FV_ROW_C, .picked = true}, [FV_TAKE_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_take_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *in = c->p[FV_TAKE_IN];
    float *out = c->p[FV_TAKE_OUT];
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t row = (size_t)a->u[0] + c->row0 + r;
        memcpy(out + (size_t)r * a->ld[FV_TAKE_OUT], in + row * a->ld[FV_TAKE_IN],
               a->prob.dim[1] * sizeof *out);
    }
}
