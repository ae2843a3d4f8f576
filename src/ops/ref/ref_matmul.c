/* ref_matmul.c: MATMUL: rows times the rows of a complete tensor, both of them activations.
 *
 *   dim   rows, N, K
 *   A     ROW, K wide        B  WHOLE: N rows, K wide        OUT  ROW, N wide; neither A nor B
 *
 *   out[i][n] = sum_k a[i][k] b[n][k]
 *
 * With prob.acc BF16, both operands may first be rounded to bfloat16, to the nearest even.
 */
#include "ops/contracts/product.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_matmul = {
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_GEMM_N] = {"N"}, [FV_GEMM_K] = {"K"}},
    .operand = {[FV_MATMUL_A] = {"A", FV_GEMM_K},
                [FV_MATMUL_B] = {"B", FV_GEMM_K},
                [FV_MATMUL_OUT] = {"OUT", FV_GEMM_N}},
    .flops = fv_flops_product,
    .terms = fv_terms_product,
    .multiplies = FV_MULTIPLIES_ROWS,
};

void fv_k_matmul_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t k = a->prob.dim[FV_GEMM_K];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MATMUL_A] + r * a->ld[FV_MATMUL_A];
        float *out = (float *)c->p[FV_MATMUL_OUT] + r * a->ld[FV_MATMUL_OUT];
        for (size_t n = c->col0; n < (size_t)c->col0 + c->cols; n++) {
            const float *y = (const float *)c->p[FV_MATMUL_B] + n * a->ld[FV_MATMUL_B];
            double sum = 0;
            for (uint32_t i = 0; i < k; i++)
                sum += (double)x[i] * y[i];
            out[n] = (float)sum;
        }
    }
}
