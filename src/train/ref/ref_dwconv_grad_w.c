/* ref_dwconv_grad_w.c: DWCONV_GRAD_W: gradients of the filters and biases of DWCONV.
 *
 *   dim    filters, C, size (odd), height of a grid, tokens (= width * height * number of grids)
 *   IN     WHOLE, tokens x C: the input of DWCONV, token y * width + x, one grid after the other
 *   DOUT   WHOLE, tokens x C: gradient of the sum over the filter's taps
 *   OUT    ROW, filters x (size * size + 1): for each filter its taps, as in torch, then its bias
 *   u[0]   grid width
 *   flags  FV_FLAG_ACCUMULATE: the result is added to OUT
 *
 *   out[f][i][j] (+)= sum over y, x and the channels c with c % filters = f of
 *                         dout[y][x][c] in[y + i - size/2][x + j - size/2][c]
 *   out[f][size * size] (+)= sum of dout[y][x][c]
 *
 * with zeros around each grid. Each grid row is summed separately. A filter's result does not
 * depend on how rows are split into calls. */
#include "ops/contracts/grid.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_DWCONV_SIZE] * p->dim[FV_DWCONV_SIZE] + 1;
}

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_DWCONV_TOKENS] * p->dim[FV_ROW_C] * columns(p);
}

static double terms(const fv_problem *p)
{
    return (double)p->dim[FV_DWCONV_TOKENS] * p->dim[FV_ROW_C] / p->dim[FV_DIM_ROWS];
}

const fv_op fv_op_dwconv_grad_w = {
    .span = FV_SPAN_ALL,
    .dim = {{"filters"},
            [FV_ROW_C] = {"C"},
            [FV_DWCONV_SIZE] = {"size"},
            [FV_DWCONV_HEIGHT] = {"height", FV_DIM_TOKENS},
            [FV_DWCONV_TOKENS] = {"tokens", FV_DIM_TOKENS}},
    .operand = {[FV_DWCONV_GRAD_W_IN] = {"IN", FV_ROW_C},
                [FV_DWCONV_GRAD_W_DOUT] = {"DOUT", FV_ROW_C},
                [FV_DWCONV_GRAD_W_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = terms,
};

/* Returns the sum for channel c over all grids. The bias is tap `size` of row 0. */
static double sum(const fv_args *a, const fv_call *c, size_t channel, int i, int j)
{
    const int width = (int)a->u[0], height = (int)a->prob.dim[FV_DWCONV_HEIGHT];
    const int size = (int)a->prob.dim[FV_DWCONV_SIZE];
    const float *in = (const float *)c->p[FV_DWCONV_GRAD_W_IN] + channel;
    const float *dout = (const float *)c->p[FV_DWCONV_GRAD_W_DOUT] + channel;
    double all = 0;
    for (int t = 0; t < (int)a->prob.dim[FV_DWCONV_TOKENS]; t++) {
        const double g = (double)dout[(size_t)t * a->ld[FV_DWCONV_GRAD_W_DOUT]];
        const int y = t / width % height + i - size / 2, x = t % width + j - size / 2;
        if (j == size)
            all += g;
        else if (y >= 0 && y < height && x >= 0 && x < width)
            all += g * in[(size_t)(t + (i - size / 2) * width + j - size / 2) *
                          a->ld[FV_DWCONV_GRAD_W_IN]];
    }
    return all;
}

void fv_k_dwconv_grad_w_f32_ref(const fv_args *a, const fv_call *c)
{
    const int size = (int)a->prob.dim[FV_DWCONV_SIZE];
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_DWCONV_GRAD_W_OUT] + r * a->ld[FV_DWCONV_GRAD_W_OUT];
        for (int k = 0; k <= size * size; k++) {
            const bool bias = k == size * size;
            double all = a->prob.flags & FV_FLAG_ACCUMULATE ? (double)out[k] : 0;
            for (size_t n = c->row0 + r; n < a->prob.dim[FV_ROW_C]; n += a->prob.dim[FV_DIM_ROWS])
                all += sum(a, c, n, bias ? 0 : k / size, bias ? size : k % size);
            out[k] = (float)all;
        }
    }
}
