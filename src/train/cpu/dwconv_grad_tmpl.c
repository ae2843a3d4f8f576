/* dwconv_grad_tmpl.c: DWCONV_GRAD_W in vec.h's vector functions. Lanes are filters, and the taps of
 * a row of a filter share every load of a gradient.
 *
 *   a filter row of size 3:     in     x-1  x  x+1         one accumulator per tap; the
 * accumulators \  |  /           of a grid row are added to the filter's dout        x */
#include "ops/contracts/grid.h"
#include "platform/cpu/vec/vec.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

/* One vector of channels, and the sums of the gradient of their filters. */
struct grad {
    const float *in, *dout; /* at token 0 */
    float *sum;             /* [tap][FV_W]; then the sum of the bias */
    ptrdiff_t ld_in, ld_dout;
    int width, height, lines; /* lines: in all grids */
};

FV_FN void add_to(float *sum, fv_v x)
{
    fv_store(sum, fv_add(fv_load(sum), x));
}

/* Adds the products of one grid row to taps [j, j + taps) of a filter row. `in` and `dout` point to
 * the grid row's token 0. */
FV_FN void row_of_taps(const struct grad *g, const float *in, const float *dout, float *to, int j,
                       int taps, int reach, int lanes)
{
    fv_v sum[5];
    FV_UNROLL
    for (int t = 0; t < taps; t++)
        sum[t] = fv_set(0.f);
    for (int x = 0; x < g->width; x++) {
        const fv_v d = fv_load_n(dout + x * g->ld_dout, lanes);
        const int first = x + j - reach;
        const float *from = in + first * g->ld_in;
        const bool inside = first >= 0 && first + taps <= g->width;
        FV_UNROLL
        for (int t = 0; t < taps; t++)
            if (inside || (first + t >= 0 && first + t < g->width))
                sum[t] = fv_fma(d, fv_load_n(from + t * g->ld_in, lanes), sum[t]);
    }
    FV_UNROLL
    for (int t = 0; t < taps; t++)
        add_to(to + t * FV_W, sum[t]);
}

/* Sums the gradient of row i of the filters over all rows of the grids. */
FV_FN void filter_row(const struct grad *g, int i, int size, int lanes)
{
    const int reach = size / 2;
    float *to = g->sum + (ptrdiff_t)i * size * FV_W;
    for (int line = 0; line < g->lines; line++) {
        const int y = line % g->height + i - reach;
        if (y < 0 || y >= g->height)
            continue;
        const float *dout = g->dout + (ptrdiff_t)line * g->width * g->ld_dout;
        const float *in = g->in + (ptrdiff_t)(line + i - reach) * g->width * g->ld_in;
        if (size == 3)
            row_of_taps(g, in, dout, to, 0, 3, 1, lanes);
        else if (size == 5)
            row_of_taps(g, in, dout, to, 0, 5, 2, lanes);
        else
            for (int j = 0; j < size; j++)
                row_of_taps(g, in, dout, to + (ptrdiff_t)j * FV_W, j, 1, reach, lanes);
    }
}

FV_FN void biases(const struct grad *g, float *to, int lanes)
{
    for (int line = 0; line < g->lines; line++) {
        const float *dout = g->dout + (ptrdiff_t)line * g->width * g->ld_dout;
        fv_v sum = fv_set(0.f);
        for (int x = 0; x < g->width; x++)
            sum = fv_add(sum, fv_load_n(dout + x * g->ld_dout, lanes));
        add_to(to, sum);
    }
}

FV_FN void channels(const struct grad *g, int size, int lanes)
{
    for (int i = 0; i < size; i++)
        filter_row(g, i, size, lanes);
    biases(g, g->sum + (ptrdiff_t)size * size * FV_W, lanes);
}

void FV_NAME(fv_k_dwconv_grad_w_f32)(const fv_args *a, const fv_call *c)
{
    const int size = (int)a->prob.dim[FV_DWCONV_SIZE], taps = size * size + 1;
    const uint32_t filters = a->prob.dim[FV_DIM_ROWS];
    struct grad g = {.sum = c->scratch,
                     .ld_in = a->ld[FV_DWCONV_GRAD_W_IN],
                     .ld_dout = a->ld[FV_DWCONV_GRAD_W_DOUT],
                     .width = (int)a->u[0],
                     .height = (int)a->prob.dim[FV_DWCONV_HEIGHT],
                     .lines = (int)(a->prob.dim[FV_DWCONV_TOKENS] / a->u[0])};
    for (uint32_t r = 0; r < c->rows; r += FV_W) {
        const int lanes = fv_lanes(c->rows - r);
        memset(g.sum, 0, (size_t)taps * FV_W * sizeof *g.sum);
        for (size_t n = c->row0 + r; n < a->prob.dim[FV_ROW_C]; n += filters) {
            g.in = (const float *)c->p[FV_DWCONV_GRAD_W_IN] + n;
            g.dout = (const float *)c->p[FV_DWCONV_GRAD_W_DOUT] + n;
            if (lanes == FV_W)
                channels(&g, size, FV_W);
            else
                channels(&g, size, lanes);
        }
        for (int f = 0; f < lanes; f++) {
            float *out =
                (float *)c->p[FV_DWCONV_GRAD_W_OUT] + (r + (size_t)f) * a->ld[FV_DWCONV_GRAD_W_OUT];
            for (int t = 0; t < taps; t++) {
                const float sum = g.sum[(size_t)t * FV_W + f];
                out[t] = a->prob.flags & FV_FLAG_ACCUMULATE ? out[t] + sum : sum;
            }
        }
    }
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    const size_t size = p->dim[FV_DWCONV_SIZE];
    return (size * size + 1) * FV_W * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_dwconv_grad_w_f32) = {.scratch = scratch};
