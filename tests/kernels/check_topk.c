/* check_topk.c: cases and definition of ROW_MAX and TOPK. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static bool make_max(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, gap;
    } sizes[] = {{1, 1, 0}, {7, 15, 1}, {5, 16, 0}, {33, 91, 3}, {3, 130, 2}, {1024, 91, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_ROW_C] = sizes[index].width;
    check_matrix(c, FV_ROW_MAX_IN, CHECK_ROW, sizes[index].rows, sizes[index].width,
                 sizes[index].gap);
    check_matrix(c, FV_ROW_MAX_OUT, CHECK_ROW, sizes[index].rows, 1, sizes[index].gap);
    c->bench = sizes[index].rows == 1024;
    return true;
}

/* Sets some values to NaN, and one whole row. */
static void spoil_max(check_case *c, check_random *r)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++)
        for (uint32_t k = 0; k < width; k++)
            if (i == 4 || check_below(r, 7) == 0)
                *check_value(c, FV_ROW_MAX_IN, i, k) = NAN;
}

static void max_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    *want = -(double)INFINITY;
    *allowed = 0;
    for (uint32_t k = 0; k < c->args.prob.dim[FV_ROW_C]; k++) {
        const double x = check_at(c, FV_ROW_MAX_IN, row, k);
        if (x > *want)
            *want = x;
    }
}

static bool make_topk(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, columns, gap,
            every; /* every `every`-th value is a candidate; 0: all values, without a table */
    } sizes[] = {{1, 1, 1, 0, 0},      {1, 9, 1, 1, 0},   {5, 5, 1, 0, 0},   {7, 40, 1, 2, 3},
                 {13, 20, 1, 0, 4},    {9, 143, 1, 0, 0}, {30, 64, 1, 1, 2}, {100, 400, 1, 0, 0},
                 {300, 1024, 1, 0, 0}, {12, 3, 5, 2, 0},  {20, 31, 3, 0, 0}, {40, 77, 3, 1, 0},
                 {200, 900, 3, 0, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t from = sizes[index].from, every = sizes[index].every;
    const uint32_t columns = sizes[index].columns, all = from * columns;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_TOPK_FROM] = from;
    c->args.prob.dim[FV_TOPK_COLUMNS] = columns;
    c->args.u[0] = all;
    if (every) {
        uint32_t *table = malloc(all * sizeof *table);
        if (!table)
            abort();
        c->args.u[0] = 0;
        for (uint32_t i = every - 1; i < all; i += every)
            table[c->args.u[0]++] = i;
        c->args.table = table;
        c->args.u[1] = 1;
    }
    check_matrix(c, FV_TOPK_IN, CHECK_BASE, from, columns, sizes[index].gap);
    check_matrix(c, FV_TOPK_OUT, CHECK_ROW, sizes[index].rows, 1, sizes[index].gap);
    c->bench = from == 1024;
    return true;
}

static double value_at(const check_case *c, uint32_t place)
{
    const uint32_t columns = c->args.prob.dim[FV_TOPK_COLUMNS];
    return check_at(c, FV_TOPK_IN, place / columns, place % columns);
}

/* Sets equal values, NaN and infinities. */
static void spoil_topk(check_case *c, check_random *r)
{
    const float hard[] = {NAN, INFINITY, -INFINITY, 0.f, -0.f};
    const uint32_t columns = c->args.prob.dim[FV_TOPK_COLUMNS];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_TOPK_FROM] * columns; i++) {
        float *x = check_value(c, FV_TOPK_IN, i / columns, i % columns);
        if (check_below(r, 4) == 0)
            *x = hard[check_below(r, 5)];
        if (i > 0 && check_below(r, 4) == 0)
            *x = (float)value_at(c, check_below(r, i));
    }
}

/* Returns the rank of candidate k: the number of candidates before it. */
static uint32_t place(const check_case *c, uint32_t k)
{
    const uint32_t *table = c->args.table;
    const double x = value_at(c, table ? table[k] : k);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->args.u[0]; i++) {
        const double y = value_at(c, table ? table[i] : i);
        const bool alike = x == y || (isnan(x) && isnan(y));
        n += alike ? i < k : isnan(x) || y > x;
    }
    return n;
}

/* Sorts the candidates' places by rank. */
static void sort(check_case *c)
{
    const uint32_t *table = c->args.table, count = c->args.u[0];
    double *order = malloc(count * sizeof *order);
    if (!order)
        abort();
    for (uint32_t k = 0; k < count; k++)
        order[place(c, k)] = table ? table[k] : k;
    free(c->definition);
    c->definition = order;
}

static void topk_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    *want = row < c->args.u[0] ? ((const double *)c->definition)[row] : -1;
    *allowed = 0;
}

static void release(check_case *c)
{
    free(c->definition);
    check_release_table(c);
}

const check_op check_row_max = {.make = make_max, .prepare = spoil_max, .oracle = max_oracle};
const check_op check_topk = {.make = make_topk,
                             .prepare = spoil_topk,
                             .define = sort,
                             .oracle = topk_oracle,
                             .release = release};
