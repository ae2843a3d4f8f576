/* check_dwconv_grad.c: DWCONV_GRAD_W. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check_run.h"
#include "train/ref/training.h"

static const struct shape {
    uint32_t width, height, grids, channels, filters, size, gap;
    bool adds;
} shapes[] = {
    {1, 1, 1, 1, 1, 3, 0, false},     {2, 3, 1, 15, 15, 3, 1, true},
    {17, 5, 1, 36, 12, 3, 0, false},  {1, 9, 2, 17, 17, 5, 0, true},
    {4, 2, 1, 64, 32, 5, 3, true},    {23, 7, 1, 33, 11, 5, 0, false},
    {3, 4, 3, 130, 65, 5, 1, true},   {11, 5, 1, 20, 20, 7, 0, false},
    {6, 13, 1, 24, 8, 1, 2, true},    {3, 2, 2, 9, 3, 11, 0, true},
    {130, 90, 1, 40, 20, 5, 0, true}, {32, 32, 1, 384, 64, 5, 0, true},
};

static bool make(check_case *c, uint32_t index)
{
    if (index >= sizeof shapes / sizeof *shapes)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t tokens = s->width * s->height * s->grids;
    c->args.prob.dim[FV_DIM_ROWS] = s->filters;
    c->args.prob.dim[FV_ROW_C] = s->channels;
    c->args.prob.dim[FV_DWCONV_SIZE] = s->size;
    c->args.prob.dim[FV_DWCONV_HEIGHT] = s->height;
    c->args.prob.dim[FV_DWCONV_TOKENS] = tokens;
    c->args.prob.flags = s->adds ? FV_FLAG_ACCUMULATE : 0;
    c->args.u[0] = s->width;
    check_matrix(c, FV_DWCONV_GRAD_W_IN, CHECK_BASE, tokens, s->channels, s->gap);
    check_matrix(c, FV_DWCONV_GRAD_W_DOUT, CHECK_BASE, tokens, s->channels, s->gap);
    check_matrix(c, FV_DWCONV_GRAD_W_OUT, CHECK_ROW, s->filters, s->size * s->size + 1, s->gap);
    c->adds = s->adds;
    c->bench = s->width == 32;
    return true;
}

/* Computes the gradient of tap (i, j) of a filter or, with `bias`, of the filter's bias. */
static void tap(const check_case *c, uint32_t filter, int i, int j, bool bias, double *sum,
                double *size)
{
    const int width = (int)c->args.u[0], height = (int)c->args.prob.dim[FV_DWCONV_HEIGHT];
    for (uint32_t t = 0; t < c->args.prob.dim[FV_DWCONV_TOKENS]; t++) {
        const int y = (int)t / width % height + i, x = (int)t % width + j;
        if (!bias && (y < 0 || y >= height || x < 0 || x >= width))
            continue;
        for (uint32_t n = filter; n < c->args.prob.dim[FV_ROW_C];
             n += c->args.prob.dim[FV_DIM_ROWS]) {
            const double from =
                bias ? 1 : check_at(c, FV_DWCONV_GRAD_W_IN, (uint32_t)((int)t + i * width + j), n);
            const double term = check_at(c, FV_DWCONV_GRAD_W_DOUT, t, n) * from;
            *sum += term;
            *size += fabs(term);
        }
    }
}

/* Each grid row is summed separately. */
static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const int n = (int)c->args.prob.dim[FV_DWCONV_SIZE];
    const uint32_t width = c->args.u[0], tokens = c->args.prob.dim[FV_DWCONV_TOKENS];
    const uint32_t shared = c->args.prob.dim[FV_ROW_C] / c->args.prob.dim[FV_DIM_ROWS];
    for (int k = 0; k <= n * n; k++) {
        want[k] = c->adds ? check_at(c, FV_DWCONV_GRAD_W_OUT, row, (uint32_t)k) : 0;
        double size = fabs(want[k]);
        tap(c, row, k / n - n / 2, k % n - n / 2, k == n * n, &want[k], &size);
        allowed[k] = check_allowed(width + (double)tokens / width * shared + 1, size) +
                     tokens * shared * FLT_MIN;
    }
}

const check_op check_dwconv_grad_w = {.make = make, .oracle = oracle};
