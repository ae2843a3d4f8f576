/* ref_pick_grad.c: PICK_GRAD: the gradient of rows that PICK copied.
 *
 *   dim    rows (of the tensor of which rows were copied), C, tokens (copied rows)
 *   INDEX  WHOLE, 1 wide: row numbers, as floats; absent: the copied rows' own numbers
 *   DOUT   WHOLE: tokens x C
 *   OUT    ROW, C wide; not another operand
 *   flags  FV_FLAG_ACCUMULATE: the result is added to OUT
 *
 *   out_i (+)= sum of dout_t over the tokens t whose index is i
 *
 * The order of additions depends only on the number of tokens. */
#include "ops/contracts/rows.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_GRAD_TOKENS] * (p->dim[FV_ROW_C] + p->dim[FV_DIM_ROWS]);
}

const fv_op fv_op_pick_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GRAD_TOKENS] = {"tokens"}},
    .operand = {[FV_PICK_GRAD_INDEX] = {"INDEX", .columns = fv_columns_one,
                                        .nature = FV_NATURE_FRACTION, .exact = true},
                [FV_PICK_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_PICK_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .terms = fv_terms_tokens,
};

static bool copied(const fv_args *a, const float *index, size_t token, size_t row)
{
    if (!index)
        return token == row;
    const float at = index[token * a->ld[FV_PICK_GRAD_INDEX]];
    return at >= 0.f && at < (float)a->prob.dim[FV_DIM_ROWS] && (size_t)at == row;
}

void fv_k_pick_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    enum { COLS = 64 };
    const size_t width = a->prob.dim[FV_ROW_C], tokens = a->prob.dim[FV_GRAD_TOKENS];
    for (size_t r = 0; r < c->rows; r++)
        for (size_t i0 = 0; i0 < width; i0 += COLS) {
            const size_t n = width - i0 < COLS ? width - i0 : COLS;
            float *out = (float *)c->p[FV_PICK_GRAD_OUT] + r * a->ld[FV_PICK_GRAD_OUT] + i0;
            double sum[COLS] = {0};
            for (size_t i = 0; a->prob.flags & FV_FLAG_ACCUMULATE && i < n; i++)
                sum[i] = (double)out[i];
            for (size_t t = 0; t < tokens; t++) {
                if (!copied(a, c->p[FV_PICK_GRAD_INDEX], t, c->row0 + r))
                    continue;
                const float *dout =
                    (const float *)c->p[FV_PICK_GRAD_DOUT] + t * a->ld[FV_PICK_GRAD_DOUT] + i0;
                for (size_t i = 0; i < n; i++)
                    sum[i] += (double)dout[i];
            }
            for (size_t i = 0; i < n; i++)
                out[i] = (float)sum[i];
        }
}
