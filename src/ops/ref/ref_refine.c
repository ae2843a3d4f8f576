/* ref_refine.c: REFINE: moves boxes by fractions of their sides, and scales them.
 *
 *   dim    rows, C = 4
 *   BOX, DELTA  ROW, 4 wide: cx, cy, w, h of a box, and their changes
 *   OUT    ROW, 4 wide; may be BOX or DELTA
 *
 *   out = (cx + dx w, cy + dy h, w exp(dw), h exp(dh))
 */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_refine = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_REFINE_BOX] = {"BOX", FV_ROW_C, .nature = FV_NATURE_FRACTION, .exact = true},
                [FV_REFINE_DELTA] = {"DELTA", FV_ROW_C, .exact = true},
                [FV_REFINE_OUT] = {"OUT", FV_ROW_C, .exact = true}},
    .element_flops = 20,
};

void fv_k_refine_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_REFINE_BOX] + r * a->ld[FV_REFINE_BOX];
        const float *delta = (const float *)c->p[FV_REFINE_DELTA] + r * a->ld[FV_REFINE_DELTA];
        float *out = (float *)c->p[FV_REFINE_OUT] + r * a->ld[FV_REFINE_OUT];
        for (size_t i = 0; i < 2; i++) {
            const float side = box[2 + i], grown = side * expf(delta[2 + i]);
            out[i] = box[i] + delta[i] * side;
            out[2 + i] = grown;
        }
    }
}
