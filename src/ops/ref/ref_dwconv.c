/* ref_dwconv.c: DWCONV: depthwise convolution over grids of tokens, each padded with zeros.
 *
 *   dim    rows (= width * height * number of grids), C, size (odd), height of a grid
 *   IN     LOCAL, rows x C: token y * width + x, one grid after the other
 *   W      period x size x size floats, as in torch or as the kernel packs them
 *   BIAS   period floats, or NULL
 *   RES    ROW, C wide, or NULL; may be OUT            GATE  ROW, C wide, or NULL; may be OUT
 *   OUT    ROW, C wide; not IN. If prob.out is BF16, it cannot be RES or GATE
 *   u[0]   grid width
 *   u[1]   period: channel c has filter and bias c % period. C: one per channel; dv: heads share
 *          them
 *   window 0, or the capacity of IN in grid rows: grid row y, counted through all grids, begins at
 *          row (y + shift) % window * width; IN holds the rows that a call needs
 *
 *                   width tokens of C channels
 *            y = 0 | t t t t t t |      out[y][x][c] = gate[y][x][c] (bias[c] + res[y][x][c] +
 *            y = 1 | t t t t t t |          sum over (i, j) of
 *              ..                               w[c][i][j] in[y + i - size/2][x + j - size/2][c])
 *
 * This is a cross-correlation, as in torch. A call may compute any of the grids' tokens; a row tile
 * needs IN with a halo of size/2 grid rows above and below. A row's result does not depend on how
 * rows are split into calls.
 */
#include "base/half.h"
#include "ops/contracts/grid.h"
#include "ops/ref/ref_kernels.h"

static double terms(const fv_problem *p)
{
    return (double)p->dim[FV_DWCONV_SIZE] * p->dim[FV_DWCONV_SIZE];
}

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C] * terms(p);
}

static uint32_t line(const fv_problem *p, const uint32_t *u)
{
    (void)p;
    return u[0];
}

/* Returns the rows of IN from the first line that row r.first needs to the last line that row r.end
 * - 1 needs, each in the grid of its row. */
static fv_rows reads(const fv_problem *p, const uint32_t *u, fv_rows r)
{
    const uint32_t height = p->dim[FV_DWCONV_HEIGHT], radius = p->dim[FV_DWCONV_SIZE] / 2;
    const uint32_t first = r.first / u[0], last = (r.end - 1) / u[0];
    const uint32_t above = first % height, below = height - 1 - last % height;
    return (fv_rows){(first - (above < radius ? above : radius)) * u[0],
                     (last + 1 + (below < radius ? below : radius)) * u[0]};
}

const fv_op fv_op_dwconv = {
    .span = FV_SPAN_LOCAL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_DWCONV_SIZE] = {"size"},
            [FV_DWCONV_HEIGHT] = {"height", FV_DIM_TOKENS}},
    .operand = {[FV_DWCONV_IN] = {"IN", FV_ROW_C},
                [FV_DWCONV_W] = {"W", .stored = FV_STORED_PACKED},
                [FV_DWCONV_BIAS] = {"BIAS", .stored = FV_STORED_FLOATS},
                [FV_DWCONV_RES] = {"RES", FV_ROW_C, .in_place = true},
                [FV_DWCONV_GATE] = {"GATE", FV_ROW_C, .in_place = true},
                [FV_DWCONV_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .flops = flops,
    .terms = terms,
    .line = line,
    .reads = reads,
    .grows = true,
};

void fv_k_dwconv_f32_ref(const fv_args *a, const fv_call *c)
{
    const int width = (int)a->u[0], height = (int)a->prob.dim[FV_DWCONV_HEIGHT];
    const int size = (int)a->prob.dim[FV_DWCONV_SIZE];
    const size_t channels = a->prob.dim[FV_ROW_C], ld = a->ld[FV_DWCONV_IN];
    const float *w = c->p[FV_DWCONV_W], *bias = c->p[FV_DWCONV_BIAS];
    const float *in = c->p[FV_DWCONV_IN], *res = c->p[FV_DWCONV_RES], *gate = c->p[FV_DWCONV_GATE];
    for (size_t r = 0; r < c->rows; r++) {
        const int line = (int)(c->row0 + r) / width, grid = line / height * height;
        const int y0 = line % height - size / 2;
        const int x0 = (int)(c->row0 + r) % width - size / 2;
        for (size_t n = 0; n < channels; n++) {
            const float *filter = w + n % a->u[1] * (size_t)(size * size);
            float sum = bias ? bias[n % a->u[1]] : 0.f;
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++) {
                    if (y0 + i < 0 || y0 + i >= height || x0 + j < 0 || x0 + j >= width)
                        continue;
                    int y = grid + y0 + i;
                    if (a->window)
                        y = (y + (int)a->shift) % (int)a->window;
                    sum += filter[i * size + j] * in[((size_t)y * width + x0 + j) * ld + n];
                }
            if (res)
                sum += res[r * a->ld[FV_DWCONV_RES] + n];
            if (gate)
                sum *= gate[r * a->ld[FV_DWCONV_GATE] + n];
            fv_value_put(c->p[FV_DWCONV_OUT], a->prob.out, r * a->ld[FV_DWCONV_OUT] + n, sum);
        }
    }
}
