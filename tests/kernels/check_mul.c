/* check_mul.c: cases and definition of MUL. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, gap, flags;
        bool in_place;
        enum fv_type out; /* none: float32 */
    } sizes[] = {
        {1, 1, 0, 0, false},
        {5, 15, 1, FV_FLAG_SILU, true},
        {3, 16, 0, 0, true},
        {2, 33, 3, FV_FLAG_SILU, false},
        {7, 65, 2, 0, false},
        {3, 37, 1, 0, false, FV_BF16},
        {2, 48, 0, FV_FLAG_SILU, false, FV_BF16},
        {4096, 768, 0, 0, true},
        {4096, 768, 0, FV_FLAG_SILU, true},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    c->args.prob.flags = sizes[index].flags;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_ROW_C] = sizes[index].width;
    for (int i = FV_MUL_A; i <= FV_MUL_OUT; i++)
        check_matrix(c, i, CHECK_ROW, sizes[index].rows, sizes[index].width, sizes[index].gap);
    if (sizes[index].out)
        c->operand[FV_MUL_OUT].storage = sizes[index].out;
    if (sizes[index].in_place)
        c->in_place = FV_MUL_A;
    c->bench = sizes[index].rows == 4096;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const bool silu = c->args.prob.flags & FV_FLAG_SILU;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double a = check_at(c, FV_MUL_A, row, i), b = check_at(c, FV_MUL_B, row, i);
        want[i] = a * (silu ? b / (1. + exp(-b)) : b);
        /* If the sigmoid or the product is below the normal range, the result may be zero. */
        allowed[i] = check_allowed(4., fabs(want[i])) + fabs(a) * (1. + fabs(b)) * FLT_MIN * silu;
    }
}

const check_op check_mul = {.make = make, .oracle = oracle};
