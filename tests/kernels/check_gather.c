/* check_gather.c: cases and definition of GATHER. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check.h"

enum res { NO_RES, RES, RES_IN_PLACE };

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, width, parts, gap;
        enum res res;
        uint32_t none; /* about one index in `none` selects no row; 0: every index selects a row */
    } sizes[] = {
        {1, 1, 1, 1, 0, NO_RES},
        {7, 3, 15, 1, 1, NO_RES},
        {5, 9, 16, 4, 0, NO_RES},
        {12, 48, 33, 4, 2, NO_RES},
        {9, 9, 17, 1, 3, RES},
        {6, 20, 7, 2, 1, RES},
        {31, 31, 64, 1, 0, RES_IN_PLACE},
        {3, 2, 130, 3, 5, RES_IN_PLACE},
        {3136, 3136, 96, 1, 0, NO_RES},
        {3136, 3136, 96, 1, 0, RES},
        {784, 3136, 96, 4, 0, NO_RES},
        {7, 5, 19, 1, 1, NO_RES, 2},
        {11, 30, 33, 4, 0, NO_RES, 3},
        {9, 9, 50, 2, 2, RES, 2},
        {13, 4, 37, 1, 0, RES_IN_PLACE, 3},
        {2, 1, 16, 1, 0, NO_RES, 1},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, parts = sizes[index].parts, gap = sizes[index].gap;
    const uint32_t width = sizes[index].width;
    uint32_t *table = malloc((size_t)rows * parts * sizeof *table);
    if (!table)
        abort();
    check_random r = {index};
    for (uint32_t i = 0; i < rows * parts; i++) {
        const bool none = sizes[index].none && check_below(&r, sizes[index].none) == 0;
        table[i] = none ? FV_GATHER_NONE : check_below(&r, sizes[index].from);
    }
    c->args.table = table;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GATHER_PARTS] = parts;
    check_matrix(c, FV_GATHER_IN, CHECK_BASE, sizes[index].from, width, gap);
    if (sizes[index].res != NO_RES)
        check_matrix(c, FV_GATHER_RES, CHECK_ROW, rows, parts * width, gap);
    check_matrix(c, FV_GATHER_OUT, CHECK_ROW, rows, parts * width, gap);
    if (sizes[index].res == RES_IN_PLACE)
        c->in_place = FV_GATHER_RES;
    c->bench = width == 96;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C], parts = c->args.prob.dim[FV_GATHER_PARTS];
    const uint32_t *table = c->args.table;
    for (uint32_t i = 0; i < parts * width; i++) {
        const uint32_t from = table[row * parts + i / width];
        want[i] = from == FV_GATHER_NONE ? 0. : check_at(c, FV_GATHER_IN, from, i % width);
        allowed[i] = 0.;
        if (!c->operand[FV_GATHER_RES].kind)
            continue;
        want[i] += check_at(c, FV_GATHER_RES, row, i);
        allowed[i] = check_rounding(FV_F32, want[i]) + 3. * FLT_MIN;
    }
}

const check_op check_gather = {.make = make, .oracle = oracle, .release = check_release_table};
