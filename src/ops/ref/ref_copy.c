/* ref_copy.c: COPY: copies rows.
 *
 *   dim  rows, C;  prob.in: type of IN, F32 or BF16
 *   IN   ROW        OUT  ROW; not IN
 *
 *   out[i] = in[i]
 */
#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_copy = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_COPY_IN] = {"IN", FV_ROW_C, .narrow = true}, [FV_COPY_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_copy_f32_ref(const fv_args *a, const fv_call *c)
{
    const enum fv_type in = a->prob.in;
    float *out = c->p[FV_COPY_OUT];
    for (size_t r = 0; r < c->rows; r++)
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            out[r * a->ld[FV_COPY_OUT] + i] =
                fv_value_get(c->p[FV_COPY_IN], in, r * a->ld[FV_COPY_IN] + i);
}
