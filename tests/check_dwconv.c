/* check_dwconv.c: cases and definition of DWCONV. */
#include <math.h>

#include "check.h"

enum res { NO_RES, RES, RES_IN_PLACE };

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t width, height, channels, period, size, gap;
        enum res res;
        bool bias;
    } sizes[] = {
        {1, 1, 1, 1, 3, 0, NO_RES, false},         {2, 3, 15, 15, 3, 1, RES, true},
        {17, 5, 16, 16, 3, 0, RES_IN_PLACE, true}, {9, 12, 36, 12, 3, 2, NO_RES, true},
        {1, 9, 17, 17, 5, 0, RES, false},          {4, 2, 64, 32, 5, 3, RES_IN_PLACE, true},
        {23, 7, 33, 11, 5, 0, RES, true},          {12, 12, 196, 196, 5, 0, NO_RES, true},
        {3, 4, 130, 65, 5, 1, RES_IN_PLACE, true}, {11, 5, 20, 20, 7, 0, RES, true},
        {64, 64, 768, 768, 3, 0, NO_RES, true},    {64, 64, 768, 64, 5, 0, RES_IN_PLACE, true},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].width * sizes[index].height, n = sizes[index].channels;
    const uint32_t size = sizes[index].size, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = n;
    c->args.prob.dim[FV_DWCONV_SIZE] = size;
    c->args.u[0] = sizes[index].width;
    c->args.u[1] = sizes[index].period;
    check_matrix(c, FV_DWCONV_IN, CHECK_BASE, rows, n, gap);
    check_matrix(c, FV_DWCONV_W, CHECK_BASE, sizes[index].period, size * size, 0);
    if (sizes[index].bias)
        check_vector(c, FV_DWCONV_BIAS, sizes[index].period);
    if (sizes[index].res != NO_RES)
        check_matrix(c, FV_DWCONV_RES, CHECK_ROW, rows, n, gap);
    check_matrix(c, FV_DWCONV_OUT, CHECK_ROW, rows, n, gap);
    if (sizes[index].res == RES_IN_PLACE)
        c->in_place = FV_DWCONV_RES;
    c->bench = n == 768;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const int width = (int)c->args.u[0],
              height = (int)(c->args.prob.dim[FV_DIM_ROWS] / c->args.u[0]);
    const int size = (int)c->args.prob.dim[FV_DWCONV_SIZE];
    const int y = (int)row / width, x = (int)row % width;
    for (uint32_t n = 0; n < c->args.prob.dim[FV_ROW_C]; n++) {
        const uint32_t filter = n % c->args.u[1];
        double sum = 0., total = 0.;
        if (c->operand[FV_DWCONV_BIAS].kind)
            sum += check_at(c, FV_DWCONV_BIAS, 0, filter);
        total += fabs(sum);
        if (c->operand[FV_DWCONV_RES].kind) {
            sum += check_at(c, FV_DWCONV_RES, row, n);
            total += fabs(check_at(c, FV_DWCONV_RES, row, n));
        }
        for (int tap = 0; tap < size * size; tap++) {
            const int ty = y + tap / size - size / 2, tx = x + tap % size - size / 2;
            if (ty < 0 || ty >= height || tx < 0 || tx >= width)
                continue;
            const double term = check_at(c, FV_DWCONV_W, filter, (uint32_t)tap) *
                                check_at(c, FV_DWCONV_IN, (uint32_t)(ty * width + tx), n);
            sum += term;
            total += fabs(term);
        }
        want[n] = sum;
        allowed[n] = check_allowed(size * size + 2., total);
    }
}

const check_op check_dwconv = {.make = make, .oracle = oracle};
