/* ref_mse_loss.c: MSE_LOSS: the squared distance of rows.
 *
 *   dim    rows, C
 *   A, B   ROW, C wide        OUT  ROW, one float
 *
 *   out = sum_c (a[c] - b[c])^2
 *
 * With FV_FLAG_RELATIVE, divided by the square of B's row; 1e-6 bounds the result for zeros:
 *
 *   out = sum_c (a[c] - b[c])^2 / (sum_c b[c]^2 + 1e-6 C)
 *
 * The code that sums the rows divides by the number of terms of the mean.
 */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_mse_loss = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_MSE_A] = {"A", FV_ROW_C},
                [FV_MSE_B] = {"B", FV_ROW_C},
                [FV_MSE_OUT] = {"OUT", .columns = fv_columns_one}},
    .element_flops = 2,
    .terms = fv_terms_row,
};

void fv_k_mse_loss_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MSE_A] + r * a->ld[FV_MSE_A];
        const float *y = (const float *)c->p[FV_MSE_B] + r * a->ld[FV_MSE_B];
        double sum = 0, square = 1e-6 * a->prob.dim[FV_ROW_C];
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
            square += (double)y[i] * y[i];
        }
        if (a->prob.flags & FV_FLAG_RELATIVE)
            sum /= square;
        ((float *)c->p[FV_MSE_OUT])[r * a->ld[FV_MSE_OUT]] = (float)sum;
    }
}
