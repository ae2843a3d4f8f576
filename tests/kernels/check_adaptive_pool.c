/* check_adaptive_pool.c: cases and definition of ADAPTIVE_POOL. */
#include <float.h>
#include <math.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t width, height, columns, lines, channels, gap;
        bool narrow;
    } sizes[] = {
        {1, 1, 1, 1, 1, 0, false},    {4, 3, 1, 1, 15, 1, false},    {5, 7, 2, 2, 16, 0, false},
        {4, 3, 6, 6, 33, 2, false},   {13, 9, 3, 3, 31, 0, false},   {2, 11, 6, 6, 64, 3, true},
        {17, 10, 6, 5, 37, 1, false}, {9, 4, 9, 4, 18, 0, false},    {31, 6, 3, 2, 40, 5, true},
        {1, 8, 3, 6, 7, 1, false},    {64, 64, 6, 6, 512, 0, false},
    };
    /* first the means of each size, then the maxima */
    const uint32_t count = sizeof sizes / sizeof *sizes;
    if (index >= 2 * count)
        return false;
    c->args.prob.flags = index < count ? 0 : FV_FLAG_LARGEST;
    index %= count;
    const uint32_t width = sizes[index].width, height = sizes[index].height;
    const uint32_t rows = sizes[index].columns * sizes[index].lines, n = sizes[index].channels;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = n;
    c->args.prob.dim[FV_POOL_WIDTH] = width;
    c->args.prob.dim[FV_POOL_HEIGHT] = height;
    c->args.prob.dim[FV_POOL_COLUMNS] = sizes[index].columns;
    check_matrix(c, FV_POOL_IN, CHECK_BASE, width * height, n, sizes[index].gap);
    check_matrix(c, FV_POOL_OUT, CHECK_ROW, rows, n, 2 * sizes[index].gap);
    if (sizes[index].narrow) {
        c->operand[FV_POOL_IN].storage = FV_BF16;
        c->operand[FV_POOL_OUT].storage = FV_BF16;
    }
    c->bench = width == 64;
    return true;
}

/* Follows torch: a cell averages the pixels from the floor of its start to the ceiling of its end.
 */
static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim;
    const double across = dim[FV_POOL_COLUMNS], down = dim[FV_DIM_ROWS] / across;
    const double width = dim[FV_POOL_WIDTH], height = dim[FV_POOL_HEIGHT];
    const uint32_t y = row / dim[FV_POOL_COLUMNS], x = row % dim[FV_POOL_COLUMNS];
    const uint32_t y0 = (uint32_t)floor(y * height / down);
    const uint32_t y1 = (uint32_t)ceil((y + 1) * height / down);
    const uint32_t x0 = (uint32_t)floor(x * width / across);
    const uint32_t x1 = (uint32_t)ceil((x + 1) * width / across);
    const double pixels = (y1 - y0) * (double)(x1 - x0);
    const bool largest = c->args.prob.flags & FV_FLAG_LARGEST;
    for (uint32_t i = 0; i < dim[FV_ROW_C]; i++) {
        double sum = 0, size = 0, top = -INFINITY;
        for (uint32_t k = y0; k < y1; k++)
            for (uint32_t l = x0; l < x1; l++) {
                const double v = check_at(c, FV_POOL_IN, k * dim[FV_POOL_WIDTH] + l, i);
                sum += v;
                size += fabs(v);
                top = fmax(top, v);
            }
        want[i] = largest ? top : sum / pixels;
        allowed[i] = largest ? 0 : check_allowed(pixels + 1, size / pixels) + FLT_MIN;
    }
}

const check_op check_adaptive_pool = {.make = make, .oracle = oracle};
