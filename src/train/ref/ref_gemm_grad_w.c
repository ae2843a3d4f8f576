/* ref_gemm_grad_w.c: GEMM_GRAD_W: the gradient of a product's weight.
 *
 *   dim    M (rows of the weight), K (its columns), tokens
 *   DOUT   WHOLE: tokens x M      IN  WHOLE: tokens x K
 *   OUT    ROW: M x K, F32; must not be another operand
 *   flags  FV_FLAG_ACCUMULATE: the result is added to OUT
 *   row0, rows  rows of OUT, which are columns of DOUT
 *   col0, cols  columns of OUT and IN; the pointers are at column 0
 *
 *             M                      K                     K
 *         +-------+              +-------+             +-------+
 *  tokens |  DOUT |   and tokens |  IN   |   to      M |  OUT  |
 *         +-------+              +-------+             +-------+
 *
 *   out[m][k] (+)= sum_t dout[t][m] in[t][k]
 *
 * prob.in is the type of both DOUT and IN: F32 or BF16. Their products are summed in float32.
 *
 * At most 1024 tokens are summed at a time, so that rounding errors do not grow with the number of
 * tokens. A result does not depend on how rows and columns are split into calls. The gradient of a
 * product's input rows is also a product: GEMM with the weight transposed. */
#include "base/half.h"
#include "ops/contracts/product.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t rows(const fv_problem *p)
{
    return p->dim[FV_DIM_ROWS];
}

const fv_op fv_op_gemm_grad_w = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_COLUMN,
    .dim = {{"M", FV_DIM_TOKENS}, [FV_GEMM_N] = {"K"}, [FV_GEMM_K] = {"tokens"}},
    .operand = {[FV_GRAD_W_DOUT] = {"DOUT", .columns = rows, .narrow = true},
                [FV_GRAD_W_IN] = {"IN", FV_GEMM_N, .narrow = true},
                [FV_GRAD_W_OUT] = {"OUT", FV_GEMM_N}},
    .flops = fv_flops_product,
    .terms = fv_terms_product,
    .most_rows = 384, /* with fewer rows per unit, more units would read all tokens */
};

void fv_k_gemm_grad_w_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t tokens = a->prob.dim[FV_GEMM_K];
    const size_t ldd = a->ld[FV_GRAD_W_DOUT], ldi = a->ld[FV_GRAD_W_IN];
    const enum fv_type type = a->prob.in;
    for (size_t m = 0; m < c->rows; m++) {
        const void *dout = fv_element(c->p[FV_GRAD_W_DOUT], type, c->row0 + m);
        float *out = (float *)c->p[FV_GRAD_W_OUT] + m * a->ld[FV_GRAD_W_OUT];
        for (size_t k = c->col0; k < (size_t)c->col0 + c->cols; k++) {
            const void *in = fv_element(c->p[FV_GRAD_W_IN], type, k);
            double sum = a->prob.flags & FV_FLAG_ACCUMULATE ? (double)out[k] : 0;
            for (size_t t = 0; t < tokens; t++)
                sum += (double)fv_value_get(dout, type, t * ldd) * fv_value_get(in, type, t * ldi);
            out[k] = (float)sum;
        }
    }
}
