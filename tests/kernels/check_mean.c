/* check_mean.c: MEAN_REDUCE and MEAN_MERGE: the mean of the patch rows, by groups. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/linear_attention.h"
#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static const uint32_t shapes[][5] = {
    /* rows, C, groups, prefix, gap */
    {1, 1, 1, 0, 0},    {2, 15, 1, 1, 1},   {17, 16, 2, 0, 0},     {33, 17, 3, 5, 3},
    {257, 65, 4, 2, 0}, {67, 129, 5, 1, 7}, {5477, 768, 16, 1, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Returns each shape twice: first for the mean, then for the maximum. */
static const uint32_t *shape_of(check_case *c, uint32_t index)
{
    c->args.prob.flags = index < SHAPES ? 0 : FV_FLAG_LARGEST;
    return index < 2 * SHAPES ? shapes[index % SHAPES] : NULL;
}

static bool is_largest(const check_case *c)
{
    return c->args.prob.flags & FV_FLAG_LARGEST;
}

static bool make_reduce(check_case *c, uint32_t index)
{
    const uint32_t *s = shape_of(c, index);
    if (!s)
        return false;
    for (int i = 0; i < 3; i++)
        c->args.prob.dim[i] = s[i];
    c->args.u[0] = s[3];
    c->args.f[0] = 1.f / (float)(s[0] - s[3]);
    check_matrix(c, FV_MEAN_IN, CHECK_ROW, s[0], s[1], s[4]);
    check_matrix(c, FV_MEAN_PARTIAL, CHECK_PARTIAL, s[2], s[1], 0);
    c->bench = index == SHAPES - 1;
    return true;
}

static void reduce_oracle(const check_case *c, uint32_t group, double *want, double *allowed)
{
    uint32_t rows, *row = check_group_rows(c, group, &rows);
    for (uint32_t i = 0; i < c->args.prob.dim[1]; i++) {
        double sum = is_largest(c) ? -INFINITY : 0, size = 0;
        for (uint32_t r = 0; r < rows; r++) {
            const double x = check_at(c, FV_MEAN_IN, row[r], i);
            if (row[r] < c->args.u[0])
                continue;
            sum = is_largest(c) ? fmax(sum, x) : sum + x;
            size += fabs(check_at(c, FV_MEAN_IN, row[r], i));
        }
        want[i] = (double)c->args.f[0] * sum;
        allowed[i] = check_allowed(rows, (double)c->args.f[0] * size);
    }
    free(row);
}

static bool make_merge(check_case *c, uint32_t index)
{
    const uint32_t *s = shape_of(c, index);
    if (!s)
        return false;
    c->args.prob.dim[0] = 1;
    c->args.prob.dim[1] = s[1];
    c->args.prob.dim[2] = s[2];
    check_matrix(c, FV_MERGE_PARTIAL, CHECK_BASE, s[2], s[1], 0);
    check_matrix(c, FV_MERGE_STATE, CHECK_ROW, 1, s[1], 0);
    return true;
}

static void merge_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    (void)row;
    for (uint32_t i = 0; i < c->args.prob.dim[1]; i++) {
        double size = 0;
        want[i] = is_largest(c) ? -INFINITY : 0;
        for (uint32_t g = 0; g < c->args.prob.dim[2]; g++) {
            const double x = check_at(c, FV_MERGE_PARTIAL, g, i);
            want[i] = is_largest(c) ? fmax(want[i], x) : want[i] + x;
            size += fabs(check_at(c, FV_MERGE_PARTIAL, g, i));
        }
        allowed[i] = check_allowed(c->args.prob.dim[2], size);
    }
}

const check_op check_mean_reduce = {.make = make_reduce, .oracle = reduce_oracle};
const check_op check_mean_merge = {.make = make_merge, .oracle = merge_oracle};
