/* ref_copy.c: COPY: rows copied.
 *
 *   dim  rows, C
 *   IN   ROW        OUT  ROW; not IN
 *
 *   out[i] = in[i]
 */
#include <string.h>

#include "ops/ref/ref_kernels.h"

const fv_op fv_op_copy = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_COPY_IN] = {"IN", FV_ROW_C}, [FV_COPY_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_copy_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *in = c->p[FV_COPY_IN];
    float *out = c->p[FV_COPY_OUT];
    for (uint32_t r = 0; r < c->rows; r++)
        memcpy(out + (size_t)r * a->ld[FV_COPY_OUT], in + (size_t)r * a->ld[FV_COPY_IN],
               a->prob.dim[1] * sizeof *out);
}
