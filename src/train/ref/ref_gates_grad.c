/* ref_gates_grad.c: GATES_GRAD: the gradient of the logits that GATES read.
 *
 *   dim    rows, heads
 *   GATES  ROW, heads wide: the result of GATES
 *   DOT    ROW, heads wide: each gate times its gradient; from HEAD_DOT or LATTN_GATE_GRAD
 *   OUT    ROW, heads wide; may be DOT
 *
 *   out_h = dot_h - gate_h / f[0] sum_h dot_h        f[0]: as in GATES
 */
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_gates_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"heads"}},
    .operand = {[FV_GATES_GRAD_GATES] = {"GATES", FV_ROW_C},
                [FV_GATES_GRAD_DOT] = {"DOT", FV_ROW_C},
                [FV_GATES_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
    .terms = fv_terms_row,
    .joint = true,
};

void fv_k_gates_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t heads = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *g = (const float *)c->p[FV_GATES_GRAD_GATES] + r * a->ld[FV_GATES_GRAD_GATES];
        const float *x = (const float *)c->p[FV_GATES_GRAD_DOT] + r * a->ld[FV_GATES_GRAD_DOT];
        float *y = (float *)c->p[FV_GATES_GRAD_OUT] + r * a->ld[FV_GATES_GRAD_OUT], sum = 0.f;
        for (size_t h = 0; h < heads; h++)
            sum += x[h];
        for (size_t h = 0; h < heads; h++)
            y[h] = x[h] - g[h] * (sum / a->f[0]);
    }
}
