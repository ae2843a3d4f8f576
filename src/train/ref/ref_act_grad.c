/* ref_act_grad.c: ACT_GRAD: the gradient of an activation's input.
 *
 *   dim    rows, C
 *   IN     ROW: the input; C wide, with SWIGLU 2C
 *   DOUT   ROW, C wide: gradient of the output
 *   OUT    ROW, as wide as IN: gradient of IN; may be IN; without SWIGLU also DOUT
 *   epi    as in ACT
 *
 *   out[c] = dout[c] act'(in[c])
 *   SWIGLU: out[c] = dout[c] in[C + c] silu'(in[c]),  out[C + c] = dout[c] silu(in[c])
 *
 * relu'(0) is 0.
 */
#include "ops/ref/ref_gemm.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_act_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ACT_GRAD_IN] = {"IN", .columns = fv_columns_swiglu},
                [FV_ACT_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_ACT_GRAD_OUT] = {"OUT", .columns = fv_columns_swiglu}},
    .element_flops = 20,
};

static double slope(double x, uint32_t epi)
{
    switch (epi & FV_EPI_ACT) {
#define FV_ACTIVATION(NAME, name, bit, value, slope)                                               \
    case FV_EPI_##NAME:                                                                            \
        return slope;
#include "act/activations.inc"
#undef FV_ACTIVATION
    default:
        return 1;
    }
}

void fv_k_act_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ACT_GRAD_IN] + r * a->ld[FV_ACT_GRAD_IN];
        const float *dout = (const float *)c->p[FV_ACT_GRAD_DOUT] + r * a->ld[FV_ACT_GRAD_DOUT];
        float *out = (float *)c->p[FV_ACT_GRAD_OUT] + r * a->ld[FV_ACT_GRAD_OUT];
        for (size_t i = 0; i < n; i++) {
            const double x = in[i], g = dout[i];
            if (a->prob.epi & FV_EPI_SWIGLU) {
                out[i] = (float)(g * in[n + i] * slope(x, FV_EPI_SILU));
                out[n + i] = (float)(g * fv_ref_activate(x, FV_EPI_SILU));
            } else {
                out[i] = (float)(g * slope(x, a->prob.epi));
            }
        }
    }
}
