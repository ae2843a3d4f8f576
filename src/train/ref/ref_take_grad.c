/* ref_take_grad.c: TAKE_GRAD: gradient of a tensor of which TAKE copied some rows.
 *
 *   dim    rows (of the tensor), C
 *   DOUT   WHOLE: u[1] x C, gradient of the copied rows
 *   RES    ROW, C wide, or absent: 0      OUT  ROW, C wide; may be RES, not DOUT
 *   u      first row copied, number of rows copied
 *
 *   out[r] = res[r] + (u0 <= r < u0 + u1 ? dout[r - u0] : 0)
 */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_take_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ROW_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_ROW_GRAD_RES] = {"RES", FV_ROW_C},
                [FV_ROW_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_take_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *res = c->p[FV_ROW_GRAD_RES], *dout = c->p[FV_ROW_GRAD_DOUT];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t row = c->row0 + r;
        const bool taken = row >= a->u[0] && row - a->u[0] < a->u[1];
        float *out = (float *)c->p[FV_ROW_GRAD_OUT] + r * a->ld[FV_ROW_GRAD_OUT];
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            const float x = res ? res[r * a->ld[FV_ROW_GRAD_RES] + i] : 0.f;
            out[i] = taken ? x + dout[(row - a->u[0]) * a->ld[FV_ROW_GRAD_DOUT] + i] : x;
        }
    }
}
