/* ref_head_dot.c: HEAD_DOT: products of two rows, head by head.
 *
 *   dim   rows, heads, d
 *   A, B  ROW, heads * d wide        OUT  ROW, heads wide
 *
 *   out_ih = a_ih.b_ih
 *
 * If A is the output of LATTN_APPLY and B its gradient, OUT is each query gate times its gradient,
 * because the gate is a factor of the output. GATES_GRAD reads this product. */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_ROW_C] * p->dim[FV_DOT_D];
}

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_DIM_ROWS] * columns(p);
}

static double terms(const fv_problem *p)
{
    return p->dim[FV_DOT_D];
}

const fv_op fv_op_head_dot = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"heads"}, [FV_DOT_D] = {"d"}},
    .operand = {[FV_DOT_A] = {"A", .columns = columns},
                [FV_DOT_B] = {"B", .columns = columns},
                [FV_DOT_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .terms = terms,
    .joint = true,
};

void fv_k_head_dot_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t heads = a->prob.dim[FV_ROW_C], d = a->prob.dim[FV_DOT_D];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_DOT_A] + r * a->ld[FV_DOT_A];
        const float *y = (const float *)c->p[FV_DOT_B] + r * a->ld[FV_DOT_B];
        for (size_t h = 0; h < heads; h++) {
            float sum = 0.f;
            for (size_t i = h * d; i < (h + 1) * d; i++)
                sum += x[i] * y[i];
            ((float *)c->p[FV_DOT_OUT])[r * a->ld[FV_DOT_OUT] + h] = sum;
        }
    }
}
