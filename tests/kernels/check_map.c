/* check_map.c: MAP_REDUCE and MAP_MERGE: attention pooling with online statistics, by groups. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/linear_attention.h"
#include "tests/kernels/check.h"

static const uint32_t shapes[][5] = {
    /* rows, d, heads, groups, gap */
    {1, 1, 1, 1, 0},   {2, 15, 2, 1, 1},   {17, 16, 3, 2, 0},     {33, 17, 1, 3, 3},
    {67, 64, 2, 5, 0}, {257, 72, 2, 4, 7}, {5476, 64, 12, 16, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void problem(check_case *c, const uint32_t *s, uint32_t rows)
{
    c->args.prob.dim[0] = rows;
    c->args.prob.dim[FV_ATTN_D] = s[1];
    c->args.prob.dim[FV_ATTN_KEYS] = s[0];
    c->args.prob.dim[FV_ATTN_GROUPS] = s[3];
    c->args.prob.heads = (uint16_t)s[2];
    c->args.f[0] = 1.f / sqrtf((float)s[1]);
}

static bool make_reduce(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const uint32_t *s = shapes[index], width = s[1] * s[2];
    problem(c, s, s[0]);
    check_vector(c, FV_MAP_Q, width);
    check_matrix(c, FV_MAP_K, CHECK_ROW, s[0], width, s[4]);
    check_matrix(c, FV_MAP_V, CHECK_ROW, s[0], width, s[4] * 2);
    check_matrix(c, FV_MAP_PARTIAL, CHECK_PARTIAL, s[3], s[2] * (2 + s[1]), 0);
    c->operand[FV_MAP_Q].huge =
        30.f; /* scores of several hundred, so that weights range from 1 down to 0 */
    c->operand[FV_MAP_K].huge = 30.f;
    c->bench = index == SHAPES - 1;
    return true;
}

/* Returns a score, and the error that float32 may make in it. */
static double score(const check_case *c, uint32_t head, uint32_t row, double *error)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    double sum = 0, size = 0;
    for (uint32_t i = head * d; i < (head + 1) * d; i++) {
        const double x = check_at(c, FV_MAP_Q, 0, i) * check_at(c, FV_MAP_K, row, i);
        sum += x;
        size += fabs(x);
    }
    *error = fmax(*error, check_allowed(d, (double)c->args.f[0] * size));
    return (double)c->args.f[0] * sum;
}

static void reduce_oracle(const check_case *c, uint32_t group, double *want, double *allowed)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    uint32_t rows, *row = check_group_rows(c, group, &rows);
    for (uint32_t h = 0; h < c->args.prob.heads; h++, want += 2 + d, allowed += 2 + d) {
        double max = -INFINITY, error = 0;
        for (uint32_t r = 0; r < rows; r++)
            max = fmax(max, score(c, h, row[r], &error));
        for (uint32_t i = 0; i < 2 + d; i++)
            want[i] = allowed[i] = 0;
        want[0] = max;
        allowed[0] = error;
        for (uint32_t r = 0; r < rows; r++) {
            const double p = exp(score(c, h, row[r], &error) - max);
            want[1] += p;
            for (uint32_t i = 0; i < d; i++) {
                const double x = p * check_at(c, FV_MAP_V, row[r], h * d + i);
                want[2 + i] += x;
                allowed[2 + i] += fabs(x);
            }
        }
        /* An error e of the exponents is a relative error of the weights. The maximum has an error
         * as well. */
        const double relative = expm1(2 * error) + check_allowed(rows, 1.0);
        allowed[1] = relative * want[1];
        for (uint32_t i = 0; i < d; i++)
            allowed[2 + i] = relative * allowed[2 + i] + rows * (double)FLT_MIN;
    }
    free(row);
}

static bool make_merge(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const uint32_t *s = shapes[index];
    problem(c, s, 1);
    check_matrix(c, FV_MERGE_PARTIAL, CHECK_BASE, s[3], s[2] * (2 + s[1]), 0);
    check_matrix(c, FV_MERGE_STATE, CHECK_ROW, 1, s[2] * s[1], 0);
    return true;
}

/* Draws maxima that differ by tens, and sums of at least 1. */
static void prepare_merge(check_case *c, check_random *r)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    for (uint32_t g = 0; g < c->args.prob.dim[FV_ATTN_GROUPS]; g++)
        for (uint32_t h = 0; h < c->args.prob.heads; h++) {
            *check_value(c, FV_MERGE_PARTIAL, g, h * (2 + d)) = (float)(20 * check_normal(r));
            *check_value(c, FV_MERGE_PARTIAL, g, h * (2 + d) + 1) =
                1.f + (float)check_below(r, 1000) * 0.01f;
        }
}

static void merge_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], groups = c->args.prob.dim[FV_ATTN_GROUPS];
    (void)row;
    for (uint32_t h = 0; h < c->args.prob.heads; h++, want += d, allowed += d) {
        const uint32_t at = h * (2 + d);
        double max = -INFINITY, sum = 0;
        for (uint32_t g = 0; g < groups; g++)
            max = fmax(max, check_at(c, FV_MERGE_PARTIAL, g, at));
        for (uint32_t g = 0; g < groups; g++)
            sum += exp(check_at(c, FV_MERGE_PARTIAL, g, at) - max) *
                   check_at(c, FV_MERGE_PARTIAL, g, at + 1);
        for (uint32_t i = 0; i < d; i++) {
            double size = want[i] = 0;
            for (uint32_t g = 0; g < groups; g++) {
                const double x = exp(check_at(c, FV_MERGE_PARTIAL, g, at) - max) *
                                 check_at(c, FV_MERGE_PARTIAL, g, at + 2 + i) / sum;
                want[i] += x;
                size += fabs(x);
            }
            /* m_g - max is rounded to several hundred float32 units: 2e-5 of the weight. */
            allowed[i] = check_allowed(groups, 8 * size) + 2e-5 * size;
        }
    }
}

const check_op check_map_reduce = {.make = make_reduce, .oracle = reduce_oracle};
const check_op check_map_merge = {
    .make = make_merge, .prepare = prepare_merge, .oracle = merge_oracle};
