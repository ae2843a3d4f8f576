/* check_gates.c: cases and definition of GATES. */
#include <float.h>
#include <math.h>

#include "ops/contracts/linear_attention.h"
#include "tests/kernels/check.h"

static const struct {
    uint32_t rows, heads, gap;
    bool in_place, nan;
} sizes[] = {
    {1, 1, 0, false, false},     {5, 12, 0, true, false},  {7, 3, 2, false, true},
    {4, 16, 1, true, false},     {3, 17, 0, false, false}, {6, 64, 3, false, true},
    {16384, 12, 0, true, false},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static bool make(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_ROW_C] = sizes[index].heads;
    check_matrix(c, FV_GATES_IN, CHECK_ROW, sizes[index].rows, sizes[index].heads,
                 sizes[index].gap);
    check_matrix(c, FV_GATES_OUT, CHECK_ROW, sizes[index].rows, sizes[index].heads,
                 sizes[index].gap);
    c->args.f[0] = index % 2 ? (float)sizes[index].heads : 1.f;
    c->operand[FV_GATES_IN].scale = sizes[index].nan ? 30.f : 3.f;
    if (sizes[index].in_place)
        c->in_place = FV_GATES_IN;
    c->bench = index == SIZES - 1;
    return true;
}

/* Sets one NaN, which must affect only its own row. */
static void prepare(check_case *c, check_random *r)
{
    for (uint32_t i = 0; i < SIZES; i++)
        if (sizes[i].nan && c->args.prob.dim[FV_DIM_ROWS] == sizes[i].rows)
            *check_value(c, FV_GATES_IN, check_below(r, sizes[i].rows),
                         check_below(r, sizes[i].heads)) = NAN;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    double max = -INFINITY, sum = 0.;
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, check_at(c, FV_GATES_IN, row, i));
    for (uint32_t i = 0; i < n; i++)
        sum += exp(check_at(c, FV_GATES_IN, row, i) - max);
    for (uint32_t i = 0; i < n; i++) {
        const double x = check_at(c, FV_GATES_IN, row, i) - max;
        want[i] = exp(x) / sum * (double)c->args.f[0];
        /* The difference is rounded once, and so is the difference of the largest terms of the sum.
         */
        allowed[i] = want[i] * (check_allowed(n + 1., 1.) + FLT_EPSILON * (fabs(x) + 2.)) + FLT_MIN;
    }
}

const check_op check_gates = {.make = make, .prepare = prepare, .oracle = oracle};
