/* check_rope.c: cases and definition of ROPE. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check_rotation.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, grid, gap; /* grid 0: tables of tokens */
        bool in_place, by_row;
    } sizes[] = {
        {1, 1, 2, 0, 0, false},         {5, 3, 6, 0, 1, true},        {9, 2, 18, 0, 0, false},
        {1, 1, 4, 1, 0, true},          {11, 2, 8, 5, 1, false},      {7, 1, 12, 1, 0, true},
        {40, 3, 16, 37, 0, false},      {26, 2, 20, 5, 3, true},      {40, 2, 24, 37, 2, true},
        {5, 5, 32, 5, 0, false},        {83, 1, 64, 37, 1, true},     {38, 2, 96, 37, 0, true},
        {13, 3, 10, 0, 3, false, true}, {6, 2, 64, 0, 0, true, true}, {3136, 6, 64, 0, 0, true},
        {3136, 6, 64, 56, 0, true},     {3136, 8, 24, 56, 0, true},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, d = sizes[index].d, grid = sizes[index].grid;
    const uint32_t heads = sizes[index].heads, width = heads * d, gap = sizes[index].gap;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_ROPE_D] = d;
    c->args.u[0] = grid;
    check_matrix(c, FV_ROPE_IN, CHECK_ROW, rows, width, gap);
    check_rotation(c, FV_ROPE_COS, FV_ROPE_SIN, rows, d, gap);
    if (sizes[index].by_row) {
        c->args.u[1] = 1;
        c->operand[FV_ROPE_COS].kind = c->operand[FV_ROPE_SIN].kind = CHECK_ROW;
    }
    check_matrix(c, FV_ROPE_OUT, CHECK_ROW, rows, width, gap);
    if (sizes[index].in_place)
        c->in_place = FV_ROPE_IN;
    c->bench = rows == 3136;
    return true;
}

static void prepare(check_case *c, check_random *r)
{
    check_rotation_values(c, FV_ROPE_COS, FV_ROPE_SIN, r);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t d = c->args.prob.dim[FV_ROPE_D];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double same = check_at(c, FV_ROPE_IN, row, i);
        const double other = check_at(c, FV_ROPE_IN, row, i ^ 1) * (i & 1 ? 1. : -1.);
        const double a = same * check_angle(c, FV_ROPE_COS, row, i % d, d);
        const double b = other * check_angle(c, FV_ROPE_SIN, row, i % d, d);
        want[i] = a + b;
        allowed[i] = 2. * FLT_EPSILON * (fabs(a) + fabs(b)) + 3. * FLT_MIN;
    }
}

const check_op check_rope = {.make = make, .prepare = prepare, .oracle = oracle};
