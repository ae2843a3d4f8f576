/* ref_layernorm_grad.c: LAYERNORM_GRAD: the gradient of LAYERNORM's rows.
 *
 *   dim     rows, C
 *   IN      ROW, C wide: the input of LAYERNORM    WEIGHT  C floats
 *   DOUT    ROW, C wide: gradient of the result
 *   RES     ROW, C wide, or absent: 0           OUT     ROW, C wide; may be RES, DOUT or IN
 *   f[0]    eps
 *
 *   x = (in - mean) / sigma,  sigma = sqrt(var + eps),  g[c] = weight[c] dout[c]
 *   out[c] = res[c] + (g[c] - mean(g) - x[c] mean(g x)) / sigma
 *
 * The means are over the C channels of a row, as in LAYERNORM. A row's result does not depend on
 * the other rows of the call. */
#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_layernorm_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_LN_GRAD_IN] = {"IN", FV_ROW_C},
                [FV_LN_GRAD_WEIGHT] = {"WEIGHT", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_LN_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_LN_GRAD_RES] = {"RES", FV_ROW_C},
                [FV_LN_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 16,
    .terms = fv_terms_row,
};

static void row(float *out, const float *res, const float *in, const float *weight,
                const float *dout, size_t n, float eps)
{
    double mean = 0, var = 0, flat = 0, along = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)in[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (in[i] - mean) * (in[i] - mean) / (double)n;
    const double scale = 1 / sqrt(var + (double)eps);
    for (size_t i = 0; i < n; i++) {
        const double g = (double)weight[i] * dout[i];
        flat += g / (double)n;
        along += g * (in[i] - mean) * scale / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double g = (double)weight[i] * dout[i], x = (in[i] - mean) * scale;
        out[i] = (float)((res ? (double)res[i] : 0) + (g - flat - x * along) * scale);
    }
}

void fv_k_layernorm_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_LN_GRAD_IN] + r * a->ld[FV_LN_GRAD_IN];
        const float *dout = (const float *)c->p[FV_LN_GRAD_DOUT] + r * a->ld[FV_LN_GRAD_DOUT];
        const float *res = c->p[FV_LN_GRAD_RES];
        float *out = (float *)c->p[FV_LN_GRAD_OUT] + r * a->ld[FV_LN_GRAD_OUT];
        row(out, res ? res + r * a->ld[FV_LN_GRAD_RES] : NULL, in, c->p[FV_LN_GRAD_WEIGHT], dout,
            a->prob.dim[FV_ROW_C], a->f[0]);
    }
}
