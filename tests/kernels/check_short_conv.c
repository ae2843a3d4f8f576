/* check_short_conv.c: cases and definition of SHORT_CONV. */
#include <float.h>
#include <math.h>

#include "ops/contracts/sequence.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, size, gap, flags;
        bool bias;
        enum fv_type in, out; /* none: float32 */
    } sizes[] = {
        {1, 1, 2, 0, 0, false},
        {1, 64, 4, 0, FV_FLAG_SILU, false},
        {2, 33, 4, 1, 0, true},
        {3, 130, 4, 3, FV_FLAG_SILU, true},
        {7, 65, 3, 0, 0, false},
        {5, 31, 16, 0, FV_FLAG_SILU, true},
        {17, 66, 5, 2, FV_FLAG_SILU, false},
        {40, 129, 4, 0, FV_FLAG_SILU, false},
        {70, 20, 9, 1, 0, true},
        {11, 67, 4, 3, FV_FLAG_SILU, false, FV_F32, FV_BF16},
        {19, 128, 4, 0, FV_FLAG_SILU, false, FV_BF16, FV_BF16},
        {4, 39, 6, 1, 0, true, FV_BF16, FV_F32},
        {1, 2048, 4, 0, FV_FLAG_SILU, false},
        {1024, 1024, 4, 0, FV_FLAG_SILU, false},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, size = sizes[index].size;
    c->args.prob.flags = sizes[index].flags;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_SHORT_CONV_SIZE] = size;
    check_matrix(c, FV_SHORT_CONV_IN, CHECK_ROW, rows, width, sizes[index].gap);
    check_matrix(c, FV_SHORT_CONV_W, CHECK_BASE, width, size, 0);
    if (sizes[index].bias)
        check_vector(c, FV_SHORT_CONV_BIAS, width);
    check_vector(c, FV_SHORT_CONV_STATE, (size - 1) * width);
    check_matrix(c, FV_SHORT_CONV_OUT, CHECK_ROW, rows, width, 2 * sizes[index].gap);
    c->state = FV_SHORT_CONV_STATE;
    c->same_rows = true;
    if (sizes[index].in)
        c->operand[FV_SHORT_CONV_IN].storage = sizes[index].in;
    if (sizes[index].out)
        c->operand[FV_SHORT_CONV_OUT].storage = sizes[index].out;
    c->bench = rows == 1024 || width == 2048;
    return true;
}

static double input(const check_case *c, int64_t t, uint32_t col)
{
    const uint32_t before = c->args.prob.dim[FV_SHORT_CONV_SIZE] - 1;
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    return t < 0 ? check_at(c, FV_SHORT_CONV_STATE, 0, (uint32_t)(before + t) * width + col)
                 : check_at(c, FV_SHORT_CONV_IN, (uint32_t)t, col);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t size = c->args.prob.dim[FV_SHORT_CONV_SIZE];
    const bool bias = c->operand[FV_SHORT_CONV_BIAS].kind != CHECK_ABSENT;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double y = bias ? check_at(c, FV_SHORT_CONV_BIAS, 0, i) : 0., sum = fabs(y), flushed = 1.;
        for (uint32_t j = 0; j < size; j++) {
            const double w = check_at(c, FV_SHORT_CONV_W, i, j);
            const double x = input(c, (int64_t)row + j + 1 - size, i);
            y += w * x;
            sum += fabs(w * x);
            flushed += fabs(w) + fabs(x);
        }
        want[i] = y;
        allowed[i] = check_allowed(size, sum) + FLT_MIN * flushed;
        if (!(c->args.prob.flags & FV_FLAG_SILU))
            continue;
        want[i] = y / (1. + exp(-y));
        allowed[i] = check_activation_error(FV_EPI_SILU, y, allowed[i]) +
                     check_allowed(4., fabs(want[i])) + FLT_MIN * (1. + fabs(y));
    }
}

/* Computes the state: the last inputs, unmodified. */
static void oracle_state(const check_case *c, double *want, double *allowed)
{
    const uint32_t before = c->args.prob.dim[FV_SHORT_CONV_SIZE] - 1;
    const uint32_t width = c->args.prob.dim[FV_ROW_C], rows = c->args.prob.dim[FV_DIM_ROWS];
    for (uint32_t i = 0; i < before * width; i++) {
        want[i] = input(c, (int64_t)rows - before + i / width, i % width);
        allowed[i] = fabs(want[i]) < (double)FLT_MIN ? (double)FLT_MIN : 0.;
    }
}

static uint32_t channel(const check_case *c, uint32_t col)
{
    return col % c->args.prob.dim[FV_ROW_C];
}

const check_op check_short_conv = {
    .make = make, .oracle = oracle, .oracle_state = oracle_state, .head = channel};
