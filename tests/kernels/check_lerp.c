/* check_lerp.c: cases and definition of LERP. */
#include <float.h>
#include <math.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, width, gap;
    } sizes[] = {
        {1, 1, 1, 0},   {7, 1, 15, 1},    {5, 5, 16, 0},    {49, 13, 33, 2},
        {3, 17, 31, 1}, {129, 64, 64, 0}, {1000, 7, 17, 3}, {3136, 784, 64, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_LERP_ROWS] = sizes[index].from;
    check_matrix(c, FV_LERP_IN, CHECK_BASE, sizes[index].from, width, gap);
    check_matrix(c, FV_LERP_OUT, CHECK_ROW, rows, width, gap);
    c->bench = rows == 3136;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], from = c->args.prob.dim[FV_LERP_ROWS];
    const double at = fmax(0., (row + 0.5) * from / rows - 0.5);
    const uint32_t low = (uint32_t)floor(at), high = low + 1 < from ? low + 1 : low;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double a = check_at(c, FV_LERP_IN, low, i), b = check_at(c, FV_LERP_IN, high, i);
        want[i] = a + (at - low) * (b - a);
        allowed[i] = 2. * FLT_EPSILON * (fabs(a) + fabs(b - a)) + 4. * FLT_MIN;
    }
}

const check_op check_lerp = {.make = make, .oracle = oracle};
