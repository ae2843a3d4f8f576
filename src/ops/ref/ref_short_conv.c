/* ref_short_conv.c: SHORT_CONV: causal depthwise convolution over rows. The inputs before the first
 * row are a state, which is read and updated.
 *
 *   dim     rows, C, size: 2 .. FV_SHORT_CONV_LARGEST
 *   prob.in, prob.out  types of IN and OUT, F32 or BF16
 *   IN      ROW, C wide       OUT  ROW, C wide; not another operand
 *   W       C x size floats, as in torch: the last tap multiplies the row itself
 *   BIAS    C floats, or NULL
 *   STATE   (size - 1) x C floats, the oldest input first; read and written
 *   flags   FV_FLAG_SILU
 *   col0, cols  channels
 *
 *   x[-size + 1] .. x[-1] are the state, x[0] .. x[rows - 1] the rows of IN;
 *
 *   y[t][c] = bias[c] + w[c][0] x[t - size + 1][c] + .. + w[c][size - 1] x[t][c]
 *   out = y;   FV_FLAG_SILU: y / (1 + e^-y)
 *
 * Sums are in this order. The state becomes x[rows - size + 1] .. x[rows - 1]. A channel's result
 * does not depend on how channels and rows are split into calls.
 */
#include <math.h>

#include "base/half.h"
#include "ops/contracts/sequence.h"
#include "ops/ref/ref_kernels.h"

static double terms(const fv_problem *p)
{
    return p->dim[FV_SHORT_CONV_SIZE];
}

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C] * terms(p);
}

static uint32_t state_columns(const fv_problem *p)
{
    return (p->dim[FV_SHORT_CONV_SIZE] - 1) * p->dim[FV_ROW_C];
}

const fv_op fv_op_short_conv = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_SHORT_CONV_SIZE] = {"size"}},
    .operand = {[FV_SHORT_CONV_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_SHORT_CONV_W] = {"W", FV_SHORT_CONV_SIZE, .stored = FV_STORED_FLOATS},
                [FV_SHORT_CONV_BIAS] = {"BIAS", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_SHORT_CONV_STATE] = {"STATE", .columns = state_columns},
                [FV_SHORT_CONV_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .flops = flops,
    .terms = terms,
    .state = FV_SHORT_CONV_STATE,
};

/* Returns x[t] of channel `col`. */
static float input(const fv_args *a, const fv_call *c, ptrdiff_t t, size_t col)
{
    const ptrdiff_t before = (ptrdiff_t)a->prob.dim[FV_SHORT_CONV_SIZE] - 1;
    if (t < 0)
        return ((const float *)
                    c->p[FV_SHORT_CONV_STATE])[(size_t)(before + t) * a->prob.dim[FV_ROW_C] + col];
    return fv_value_get(c->p[FV_SHORT_CONV_IN], a->prob.in,
                        (size_t)t * a->ld[FV_SHORT_CONV_IN] + col);
}

static void channel(const fv_args *a, const fv_call *c, size_t col)
{
    const size_t size = a->prob.dim[FV_SHORT_CONV_SIZE], width = a->prob.dim[FV_ROW_C];
    const float *w = (const float *)c->p[FV_SHORT_CONV_W] + col * size;
    const float *bias = c->p[FV_SHORT_CONV_BIAS];
    const ptrdiff_t before = (ptrdiff_t)size - 1, rows = c->rows;
    for (ptrdiff_t t = 0; t < rows; t++) {
        float y = bias ? bias[col] : 0.f;
        for (size_t j = 0; j < size; j++)
            y += w[j] * input(a, c, t - before + (ptrdiff_t)j, col);
        if (a->prob.flags & FV_FLAG_SILU)
            y /= 1.f + expf(-y);
        fv_value_put(c->p[FV_SHORT_CONV_OUT], a->prob.out,
                     (size_t)t * a->ld[FV_SHORT_CONV_OUT] + col, y);
    }
    for (ptrdiff_t i = 0; i < before; i++)
        ((float *)c->p[FV_SHORT_CONV_STATE])[(size_t)i * width + col] =
            input(a, c, rows - before + i, col);
}

void fv_k_short_conv_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t col = c->col0; col < (size_t)c->col0 + c->cols; col++)
        channel(a, c, col);
}
