/* check_mask_keys.c: cases and definition of MASK_KEYS. */
#include <math.h>

#include "ops/contracts/softmax_attention.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, before, keys, gap;
        bool most;
    } sizes[] = {
        {1, 1, 0, 1, 0},        {1, 2, 3, 1, 1},         {7, 2, 12, 36, 0},
        {5, 3, 1, 33, 2},       {4, 1, 8, 15, 0},        {13, 5, 0, 64, 1},
        {3, 2, 205, 9, 0},      {31, 6, 6, 77, 3},       {9, 2, 0, 1, 0, true},
        {9, 3, 5, 33, 2, true}, {31, 1, 0, 64, 0, true}, {200, 6, 205, 400, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, heads = sizes[index].heads;
    const uint32_t before = sizes[index].before, keys = sizes[index].keys;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = keys;
    c->args.prob.dim[FV_MASK_BEFORE] = before;
    check_matrix(c, FV_MASK_IN, CHECK_ROW, rows, keys, sizes[index].gap);
    if (sizes[index].most)
        check_matrix(c, FV_MASK_MOST, CHECK_ROW, rows, 1, sizes[index].gap);
    check_matrix(c, FV_MASK_OUT, CHECK_ROW, rows, heads * (before + keys + 1), sizes[index].gap);
    c->bench = rows == 200;
    return true;
}

/* Sets one value per row to 0. Makes the values of every third row negative, and of others NaN. */
static void prepare(check_case *c, check_random *r)
{
    const uint32_t keys = c->args.prob.dim[FV_ROW_C];
    for (uint32_t row = 0; row < c->args.prob.dim[FV_DIM_ROWS]; row++) {
        float most = -INFINITY;
        *check_value(c, FV_MASK_IN, row, check_below(r, keys)) = 0.f;
        for (uint32_t i = 0; i < keys; i++) {
            float *x = check_value(c, FV_MASK_IN, row, i);
            if (row % 3 == 1)
                *x = -1.f - fabsf(*x);
            if (row % 6 == 5)
                *x = NAN;
            most = *x > most ? *x : most;
        }
        if (c->operand[FV_MASK_MOST].kind)
            *check_value(c, FV_MASK_MOST, row, 0) = most;
    }
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t before = c->args.prob.dim[FV_MASK_BEFORE], keys = c->args.prob.dim[FV_ROW_C];
    const uint32_t columns = before + keys + 1;
    for (uint32_t i = 0; i < c->args.prob.heads * columns; i++) {
        const uint32_t at = i % columns;
        const bool masked = at >= before && at < before + keys;
        const double x = masked ? check_at(c, FV_MASK_IN, row, at - before) : 0;
        bool any = false;
        for (uint32_t k = 0; k < keys; k++)
            any = any || check_at(c, FV_MASK_IN, row, k) >= 0;
        const bool hidden = c->operand[FV_MASK_MOST].kind ? any && x < 0 : !(x > 0);
        want[i] = masked && hidden ? -8192. : 0.;
        allowed[i] = 0.;
    }
}

const check_op check_mask_keys = {.make = make, .prepare = prepare, .oracle = oracle};
