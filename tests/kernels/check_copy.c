/* check_copy.c: COPY and TAKE: the output rows equal the input rows bit by bit. */
#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static const uint32_t shapes[][3] = {
    /* rows, C, gap */
    {1, 1, 0}, {1, 16, 3}, {2, 15, 1}, {7, 17, 0}, {13, 64, 5}, {33, 31, 2}, {5477, 768, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static bool make_copy(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const uint32_t *s = shapes[index];
    c->args.prob.dim[0] = s[0];
    c->args.prob.dim[1] = s[1];
    check_matrix(c, FV_COPY_IN, CHECK_ROW, s[0], s[1], s[2]);
    check_matrix(c, FV_COPY_OUT, CHECK_ROW, s[0], s[1], s[2] / 2);
    c->bench = index == SHAPES - 1;
    return true;
}

/* All shapes in float32, then all but the largest with each other pair of types. */
static bool make_take(check_case *c, uint32_t index)
{
    static const enum fv_type types[][2] = {
        {FV_F32, FV_F32}, {FV_BF16, FV_BF16}, {FV_F32, FV_BF16}, {FV_BF16, FV_F32}};
    const uint32_t pair = index < SHAPES ? 0 : 1 + (index - SHAPES) / (SHAPES - 1);
    if (pair >= sizeof types / sizeof *types)
        return false;
    const enum fv_type *type = types[pair];
    const uint32_t *s = shapes[pair == 0 ? index : (index - SHAPES) % (SHAPES - 1)];
    const uint32_t first = index % 3;
    c->args.u[0] = first;
    c->args.prob.dim[0] = s[0];
    c->args.prob.dim[1] = s[1];
    check_matrix(c, FV_TAKE_IN, CHECK_BASE, first + s[0] + index % 2, s[1], s[2]);
    check_matrix(c, FV_TAKE_OUT, CHECK_ROW, s[0], s[1], s[2] / 2);
    if (type[0] != FV_F32)
        c->operand[FV_TAKE_IN].storage = type[0];
    if (type[1] != FV_F32)
        c->operand[FV_TAKE_OUT].storage = type[1];
    c->bench = index == SHAPES - 1;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    for (uint32_t i = 0; i < c->args.prob.dim[1]; i++) {
        want[i] = check_at(c, 0, row + c->args.u[0], i);
        allowed[i] = 0;
    }
}

const check_op check_copy = {.make = make_copy, .oracle = oracle};
const check_op check_take = {.make = make_take, .oracle = oracle};
