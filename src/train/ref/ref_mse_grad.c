/* ref_mse_grad.c: MSE_GRAD: gradient of MSE_LOSS with respect to A.
 *
 *   dim    rows, C
 *   A, B   ROW, C wide        OUT  ROW, C wide; may be A or B
 *   f[0]   2 times the factor of the loss
 *
 *   out[c] = f0 (a[c] - b[c])
 *
 * With FV_FLAG_RELATIVE:
 *
 *   out[c] = f0 (a[c] - b[c]) / (sum_c b[c]^2 + 1e-6 C)
 */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_mse_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_MSE_A] = {"A", FV_ROW_C},
                [FV_MSE_B] = {"B", FV_ROW_C},
                [FV_MSE_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

void fv_k_mse_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MSE_A] + r * a->ld[FV_MSE_A];
        const float *y = (const float *)c->p[FV_MSE_B] + r * a->ld[FV_MSE_B];
        float *out = (float *)c->p[FV_MSE_OUT] + r * a->ld[FV_MSE_OUT];
        const size_t n = a->prob.dim[FV_ROW_C];
        if (!(a->prob.flags & FV_FLAG_RELATIVE)) {
            for (size_t i = 0; i < n; i++)
                out[i] = a->f[0] * (x[i] - y[i]);
            continue;
        }
        double square = 1e-6 * (double)n;
        for (size_t i = 0; i < n; i++)
            square += (double)y[i] * y[i];
        for (size_t i = 0; i < n; i++)
            out[i] = (float)(a->f[0] * ((double)x[i] - y[i]) / square);
    }
}
