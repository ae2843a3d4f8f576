/* check_dwconv.c: cases and definition of DWCONV. */
#include <math.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check.h"

enum res { NO_RES, RES, RES_IN_PLACE };
enum gate { NO_GATE, GATE, GATE_IN_PLACE };

static bool make(check_case *c, uint32_t index)
{
    /* If `window` is set, a ring of `window` grid rows holds what grid rows [from, from + lines)
     * need. */
    static const struct {
        uint32_t width, height, channels, period, size, gap;
        enum res res;
        bool bias;
        enum gate gate;
        uint32_t grids, window, shift, from, lines;
        enum fv_type out; /* none: float32 */
    } sizes[] = {
        {1, 1, 1, 1, 3, 0, NO_RES, false, NO_GATE, 1, 0, 0, 0, 0},
        {2, 3, 15, 15, 3, 1, RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {17, 5, 16, 16, 3, 0, RES_IN_PLACE, true, NO_GATE, 1, 0, 0, 0, 0},
        {9, 12, 36, 12, 3, 2, NO_RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {1, 9, 17, 17, 5, 0, RES, false, NO_GATE, 1, 0, 0, 0, 0},
        {4, 2, 64, 32, 5, 3, RES_IN_PLACE, true, NO_GATE, 1, 0, 0, 0, 0},
        {23, 7, 33, 11, 5, 0, RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {12, 12, 196, 196, 5, 0, NO_RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {3, 4, 130, 65, 5, 1, RES_IN_PLACE, true, NO_GATE, 1, 0, 0, 0, 0},
        {11, 5, 20, 20, 7, 0, RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {13, 4, 37, 37, 3, 2, NO_RES, true, GATE, 1, 0, 0, 0, 0},
        {10, 7, 40, 8, 5, 0, RES, false, GATE_IN_PLACE, 1, 0, 0, 0, 0},
        {7, 3, 24, 24, 5, 1, RES_IN_PLACE, true, GATE, 1, 0, 0, 0, 0},
        {5, 3, 17, 17, 5, 0, RES, true, NO_GATE, 4, 0, 0, 0, 0},
        {7, 7, 33, 11, 3, 1, NO_RES, true, GATE, 3, 0, 0, 0, 0},
        {1, 1, 16, 16, 3, 0, NO_RES, true, NO_GATE, 9, 0, 0, 0, 0},
        {15, 1, 6, 6, 5, 0, RES, false, NO_GATE, 5, 0, 0, 0, 0},
        {3, 2, 9, 9, 7, 0, RES, true, GATE, 2, 0, 0, 0, 0},
        {9, 20, 33, 33, 3, 0, NO_RES, true, NO_GATE, 1, 5, 2, 6, 3},
        {4, 5, 12, 12, 5, 1, RES, true, GATE, 6, 10, 0, 10, 10},
        {7, 7, 16, 16, 3, 0, NO_RES, true, NO_GATE, 5, 14, 3, 21, 14},
        {19, 31, 20, 20, 5, 1, RES, true, GATE, 1, 7, 0, 12, 3},
        {8, 11, 16, 16, 5, 0, NO_RES, false, NO_GATE, 1, 6, 0, 0, 4},
        {8, 11, 17, 17, 5, 0, NO_RES, true, NO_GATE, 1, 6, 5, 7, 4},
        {1, 40, 5, 5, 7, 2, RES, true, NO_GATE, 1, 13, 0, 20, 7},
        {6, 2, 24, 8, 5, 0, NO_RES, true, GATE, 1, 2, 0, 0, 2},
        {17, 5, 37, 37, 3, 2, RES, true, GATE, 1, 0, 0, 0, 0, FV_BF16},
        {9, 20, 48, 48, 5, 0, NO_RES, true, NO_GATE, 1, 9, 2, 6, 3, FV_BF16},
        {64, 64, 768, 768, 3, 0, NO_RES, true, NO_GATE, 1, 0, 0, 0, 0},
        {64, 64, 768, 64, 5, 0, RES_IN_PLACE, true, NO_GATE, 1, 0, 0, 0, 0},
        {64, 64, 256, 256, 5, 0, RES_IN_PLACE, true, GATE, 1, 0, 0, 0, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t width = sizes[index].width, size = sizes[index].size, gap = sizes[index].gap;
    const uint32_t rows = width * sizes[index].height * sizes[index].grids;
    const uint32_t n = sizes[index].channels, window = sizes[index].window;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = n;
    c->args.prob.dim[FV_DWCONV_SIZE] = size;
    c->args.prob.dim[FV_DWCONV_HEIGHT] = sizes[index].height;
    c->args.u[0] = width;
    c->args.u[1] = sizes[index].period;
    c->args.window = window;
    c->args.shift = sizes[index].shift;
    c->row0 = sizes[index].from * width;
    c->rows = sizes[index].lines * width;
    check_matrix(c, FV_DWCONV_IN, CHECK_BASE, window ? window * width : rows, n, gap);
    check_matrix(c, FV_DWCONV_W, CHECK_WEIGHT, sizes[index].period, size * size, 0);
    if (sizes[index].bias)
        check_vector(c, FV_DWCONV_BIAS, sizes[index].period);
    if (sizes[index].res != NO_RES)
        check_matrix(c, FV_DWCONV_RES, CHECK_ROW, rows, n, gap);
    if (sizes[index].gate != NO_GATE)
        check_matrix(c, FV_DWCONV_GATE, CHECK_ROW, rows, n, gap);
    check_matrix(c, FV_DWCONV_OUT, CHECK_ROW, rows, n, gap);
    if (sizes[index].res == RES_IN_PLACE)
        c->in_place = FV_DWCONV_RES;
    if (sizes[index].gate == GATE_IN_PLACE)
        c->in_place = FV_DWCONV_GATE;
    if (sizes[index].out)
        c->operand[FV_DWCONV_OUT].storage = sizes[index].out;
    c->bench = width == 64;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const int width = (int)c->args.u[0], height = (int)c->args.prob.dim[FV_DWCONV_HEIGHT];
    const int size = (int)c->args.prob.dim[FV_DWCONV_SIZE], window = (int)c->args.window;
    const int x = (int)row % width, y = (int)row / width % height;
    const int grid = (int)row / width - y;
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
            const int line = window ? (grid + ty + (int)c->args.shift) % window : grid + ty;
            const double term = check_at(c, FV_DWCONV_W, filter, (uint32_t)tap) *
                                check_at(c, FV_DWCONV_IN, (uint32_t)(line * width + tx), n);
            sum += term;
            total += fabs(term);
        }
        if (c->operand[FV_DWCONV_GATE].kind) {
            sum *= check_at(c, FV_DWCONV_GATE, row, n);
            total *= fabs(check_at(c, FV_DWCONV_GATE, row, n));
        }
        want[n] = sum;
        allowed[n] = check_allowed(size * size + 3., total);
    }
}

const check_op check_dwconv = {.make = make, .oracle = oracle};
