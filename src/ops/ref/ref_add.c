/* ref_add.c: ADD: scales each channel of rows, and adds other rows; also the gradient of the rows
 * after a layer scale.
 *
 *   dim    rows, C
 *   IN     ROW, C wide            SCALE  C floats, or absent: 1
 *   RES    ROW, C wide, or absent: 0
 *   OUT    ROW, C wide; may be IN or RES
 *
 *   out[c] = res[c] + scale[c] in[c]
 */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_add = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ADD_IN] = {"IN", FV_ROW_C},
                [FV_ADD_SCALE] = {"SCALE", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_ADD_RES] = {"RES", FV_ROW_C},
                [FV_ADD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_add_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *scale = c->p[FV_ADD_SCALE];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ADD_IN] + r * a->ld[FV_ADD_IN];
        const float *res = c->p[FV_ADD_RES];
        float *out = (float *)c->p[FV_ADD_OUT] + r * a->ld[FV_ADD_OUT];
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            const float x = scale ? scale[i] * in[i] : in[i];
            out[i] = res ? res[r * a->ld[FV_ADD_RES] + i] + x : x;
        }
    }
}
