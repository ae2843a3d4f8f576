/* ref_groupnorm_grad_w.c: GROUPNORM_GRAD_W: gradients of the weight and the bias of GROUPNORM,
 * which are also the sums that GROUPNORM_GRAD needs.
 *
 *   dim     1, C, tokens
 *   IN      WHOLE: tokens x C, the input of GROUPNORM    DOUT  WHOLE: tokens x C
 *   STATE   3 C floats, as ref_groupnorm_merge.c writes them
 *   OUT     ROW, 2 C wide: gradient of the weight, then of the bias
 *   f[0]    eps
 *
 *   out[c] = sum_t dout[t][c] (in[t][c] - mean[c]) / sqrt(variance[c] + eps)
 *   out[C + c] = sum_t dout[t][c]
 *
 * GROUPNORM has no activation. At most 256 tokens are summed at a time. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return 2 * p->dim[FV_ROW_C];
}

static double flops(const fv_problem *p)
{
    return 5. * p->dim[FV_GRAD_TOKENS] * p->dim[FV_ROW_C];
}

const fv_op fv_op_groupnorm_grad_w = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GRAD_TOKENS] = {"tokens"}},
    .operand = {[FV_GN_GRAD_W_IN] = {"IN", FV_ROW_C},
                [FV_GN_GRAD_W_STATE] = {"STATE", .columns = fv_columns_moments,
                                        .state_of = FV_OP_GROUPNORM_REDUCE},
                [FV_GN_GRAD_W_DOUT] = {"DOUT", FV_ROW_C},
                [FV_GN_GRAD_W_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_terms_tokens,
};

void fv_k_groupnorm_grad_w_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C], tokens = a->prob.dim[FV_GRAD_TOKENS];
    const float *mean = c->p[FV_GN_GRAD_W_STATE], *var = mean + n;
    for (size_t i = 0; i < n; i++) {
        const float *in = (const float *)c->p[FV_GN_GRAD_W_IN] + i;
        const float *dout = (const float *)c->p[FV_GN_GRAD_W_DOUT] + i;
        double weight = 0, bias = 0;
        for (size_t t = 0; t < tokens; t++) {
            const double x = (double)in[t * a->ld[FV_GN_GRAD_W_IN]] - (double)mean[i];
            weight += x * dout[t * a->ld[FV_GN_GRAD_W_DOUT]];
            bias += dout[t * a->ld[FV_GN_GRAD_W_DOUT]];
        }
        float *out = c->p[FV_GN_GRAD_W_OUT];
        out[i] = (float)(weight / sqrt((double)var[i] + (double)a->f[0]));
        out[n + i] = (float)bias;
    }
}
