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
        uint32_t rows, from, gap,
            every; /* every `every`-th row is a candidate; 0: all rows, without a table */
    } sizes[] = {{1, 1, 0, 0},   {1, 9, 1, 0},   {5, 5, 0, 0},     {7, 40, 2, 3},    {13, 20, 0, 4},
                 {9, 143, 0, 0}, {30, 64, 1, 2}, {100, 400, 0, 0}, {300, 1024, 0, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t from = sizes[index].from, every = sizes[index].every;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_TOPK_FROM] = from;
    c->args.u[0] = from;
    if (every) {
        uint32_t *table = malloc(from * sizeof *table);
        if (!table)
            abort();
        c->args.u[0] = 0;
        for (uint32_t i = every - 1; i < from; i += every)
            table[c->args.u[0]++] = i;
        c->args.table = table;
        c->args.u[1] = 1;
    }
    check_matrix(c, FV_TOPK_IN, CHECK_BASE, from, 1, sizes[index].gap);
    check_matrix(c, FV_TOPK_OUT, CHECK_ROW, sizes[index].rows, 1, sizes[index].gap);
    c->bench = from == 1024;
    return true;
}

/* Sets equal numbers, NaN and infinities. */
static void spoil_topk(check_case *c, check_random *r)
{
    const float hard[] = {NAN, INFINITY, -INFINITY, 0.f, -0.f};
    for (uint32_t i = 0; i < c->args.prob.dim[FV_TOPK_FROM]; i++) {
        if (check_below(r, 4) == 0)
            *check_value(c, FV_TOPK_IN, i, 0) = hard[check_below(r, 5)];
        if (i > 0 && check_below(r, 4) == 0)
            *check_value(c, FV_TOPK_IN, i, 0) =
                (float)check_at(c, FV_TOPK_IN, check_below(r, i), 0);
    }
}

/* Returns the rank of candidate k: the number of candidates before it. */
static uint32_t place(const check_case *c, uint32_t k)
{
    const uint32_t *table = c->args.table;
    const double x = check_at(c, FV_TOPK_IN, table ? table[k] : k, 0);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->args.u[0]; i++) {
        const double y = check_at(c, FV_TOPK_IN, table ? table[i] : i, 0);
        const bool alike = x == y || (isnan(x) && isnan(y));
        n += alike ? i < k : isnan(x) || y > x;
    }
    return n;
}

/* Sorts the candidates' rows by rank. */
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
