/* ref_groupnorm_grad.c: GROUPNORM_GRAD: the gradient of the input of GROUPNORM.
 *
 *   dim     rows, C, groups, which divide C evenly
 *   IN      ROW, C wide, the input of GROUPNORM      DOUT  ROW, C wide
 *   STATE   3 C floats, as ref_groupnorm_merge.c writes them
 *   WEIGHT  C floats
 *   SUMS    2 C floats, the result of GROUPNORM_GRAD_W
 *   OUT     ROW, C wide; may be DOUT
 *   f[0]    eps
 *
 *   x[c] = (in[c] - mean[c]) scale[c];   scale[c] = 1 / sqrt(variance[c] + eps)
 *   out[c] = scale[c] (weight[c] dout[c] - a[c] - x[c] b[c])
 *   a[c] = mean of weight[k] sums[C + k] / rows,  b[c] = mean of weight[k] sums[k] / rows,
 *          over the channels k of c's group
 *
 * `rows` is the number of rows of the whole step, over which GROUPNORM's means are taken. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return 2 * p->dim[FV_ROW_C];
}

static double terms(const fv_problem *p)
{
    return (double)p->dim[FV_ROW_C] / p->dim[FV_GROUPNORM_GRAD_GROUPS];
}

const fv_op fv_op_groupnorm_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GROUPNORM_GRAD_GROUPS] = {"groups"}},
    .operand = {[FV_GN_GRAD_IN] = {"IN", FV_ROW_C},
                [FV_GN_GRAD_STATE] = {"STATE", .columns = fv_columns_moments,
                                      .state_of = FV_OP_GROUPNORM_REDUCE},
                [FV_GN_GRAD_WEIGHT] = {"WEIGHT", FV_ROW_C, .stored = FV_STORED_FLOATS,
                                       .nature = FV_NATURE_FACTOR},
                [FV_GN_GRAD_SUMS] = {"SUMS", .columns = columns},
                [FV_GN_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_GN_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 7,
    .terms = terms,
};

/* Computes the group whose first channel is i, which has n channels. */
static void group(const fv_args *a, const fv_call *c, size_t i, size_t n)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    const float *mean = c->p[FV_GN_GRAD_STATE], *weight = c->p[FV_GN_GRAD_WEIGHT];
    const float *sums = c->p[FV_GN_GRAD_SUMS];
    const double all = (double)n * a->prob.dim[FV_DIM_ROWS];
    double level = 0, slope = 0;
    for (size_t k = i; k < i + n; k++) {
        level += (double)weight[k] * sums[width + k] / all;
        slope += (double)weight[k] * sums[k] / all;
    }
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_GN_GRAD_IN] + r * a->ld[FV_GN_GRAD_IN];
        const float *dout = (const float *)c->p[FV_GN_GRAD_DOUT] + r * a->ld[FV_GN_GRAD_DOUT];
        float *out = (float *)c->p[FV_GN_GRAD_OUT] + r * a->ld[FV_GN_GRAD_OUT];
        for (size_t k = i; k < i + n; k++) {
            const double scale = 1 / sqrt((double)mean[width + k] + (double)a->f[0]);
            const double x = ((double)in[k] - (double)mean[k]) * scale;
            out[k] = (float)(scale * ((double)weight[k] * dout[k] - level - x * slope));
        }
    }
}

void fv_k_groupnorm_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], n = width / a->prob.dim[FV_GROUPNORM_GRAD_GROUPS];
    for (size_t i = 0; i < width; i += n)
        group(a, c, i, n);
}
