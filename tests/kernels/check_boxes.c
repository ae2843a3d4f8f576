/* check_boxes.c: cases and definition of PICK. */
#include <math.h>

#include "tests/kernels/check.h"

static bool make_pick(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, width, gap;
        bool in_order;
    } sizes[] = {{1, 1, 1, 0, false},    {7, 3, 15, 1, false}, {5, 9, 16, 0, true},
                 {12, 48, 33, 2, false}, {48, 48, 4, 0, true}, {300, 1024, 256, 0, false}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_PICK_FROM] = sizes[index].from;
    check_matrix(c, FV_PICK_IN, CHECK_BASE, sizes[index].from, width, gap);
    if (!sizes[index].in_order)
        check_matrix(c, FV_PICK_INDEX, CHECK_ROW, rows, 1, gap);
    check_matrix(c, FV_PICK_OUT, CHECK_ROW, rows, width, gap);
    c->bench = rows == 300;
    return true;
}

/* Numbers of rows; now and then of none. */
static void number(check_case *c, check_random *r)
{
    const float none[] = {-1.f, NAN, INFINITY, 1e9f, -0.5f};
    const uint32_t from = c->args.prob.dim[FV_PICK_FROM];
    if (!c->operand[FV_PICK_INDEX].kind)
        return;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++)
        *check_value(c, FV_PICK_INDEX, i, 0) =
            check_below(r, 6) == 0 ? none[check_below(r, 5)] : (float)check_below(r, from);
}

static void pick_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t from = c->args.prob.dim[FV_PICK_FROM];
    const double at = c->operand[FV_PICK_INDEX].kind ? check_at(c, FV_PICK_INDEX, row, 0) : row;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        want[i] = at >= 0 && at < from ? check_at(c, FV_PICK_IN, (uint32_t)at, i) : 0;
        allowed[i] = 0;
    }
}

const check_op check_pick = {.make = make_pick, .prepare = number, .oracle = pick_oracle};
