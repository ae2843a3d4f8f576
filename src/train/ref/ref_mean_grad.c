/* ref_mean_grad.c: MEAN_GRAD: gradient of the rows whose mean MEAN_REDUCE and MEAN_MERGE
 * compute.
 *
 *   dim    rows (prefix included), C
 *   DOUT   WHOLE: one row of C, gradient of the mean
 *   RES    ROW, C wide, or absent: 0      OUT  ROW, C wide; may be RES, not DOUT
 *   u[0]   number of prefix rows, which are not in the mean
 *   f[0]   1 / (rows - prefix)
 *
 *   out[r] = res[r] + (r >= u0 ? f0 dout : 0)
 */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_mean_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ROW_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_ROW_GRAD_RES] = {"RES", FV_ROW_C},
                [FV_ROW_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_mean_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *res = c->p[FV_ROW_GRAD_RES], *dout = c->p[FV_ROW_GRAD_DOUT];
    for (size_t r = 0; r < c->rows; r++) {
        const float factor = c->row0 + r >= a->u[0] ? a->f[0] : 0.f;
        float *out = (float *)c->p[FV_ROW_GRAD_OUT] + r * a->ld[FV_ROW_GRAD_OUT];
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            out[i] = (res ? res[r * a->ld[FV_ROW_GRAD_RES] + i] : 0.f) + factor * dout[i];
    }
}
