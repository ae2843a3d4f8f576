/* check_groupnorm.c: GROUPNORM_REDUCE, GROUPNORM_MERGE and GROUPNORM: their cases and definition.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/linear_attention.h"
#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"
#include "tests/kernels/oracle.h"

static const struct shape {
    uint32_t rows, width, partials, groups, gap;
    enum fv_type in; /* none: float32 */
} shapes[] = {
    {1, 1, 1, 1, 0},        {2, 15, 1, 3, 1},           {17, 16, 2, 16, 0},
    {33, 18, 3, 6, 3},      {257, 65, 4, 5, 0},         {130, 129, 5, 1, 7},
    {70, 200, 2, 2, 1},     {67, 48, 3, 8, 2, FV_BF16}, {9, 37, 1, 37, 0, FV_BF16},
    {5476, 256, 16, 32, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- statistics of channels ---- */

static bool make_reduce(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    c->args.prob.dim[FV_DIM_ROWS] = s->rows;
    c->args.prob.dim[FV_ROW_C] = s->width;
    c->args.prob.dim[FV_GROUPNORM_PARTIALS] = s->partials;
    c->args.prob.dim[FV_GROUPNORM_GROUPS] = s->groups;
    c->args.f[0] = 1.f / (float)s->rows;
    check_matrix(c, FV_MOMENTS_IN, CHECK_ROW, s->rows, s->width, s->gap);
    check_matrix(c, FV_MOMENTS_PARTIAL, CHECK_PARTIAL, s->partials, 3 * s->width, 0);
    if (s->in)
        c->operand[FV_MOMENTS_IN].storage = s->in;
    c->bench = index == SHAPES - 1;
    return true;
}

/* Of every three channels, one has a mean of ten thousand times its deviation, and one is constant.
 */
static void prepare_reduce(check_case *c, check_random *r)
{
    (void)r;
    for (uint32_t row = 0; row < c->args.prob.dim[FV_DIM_ROWS]; row++)
        for (uint32_t i = 1; i < c->args.prob.dim[FV_ROW_C]; i++) {
            float *x = check_value(c, FV_MOMENTS_IN, row, i);
            if (i % 3 == 1)
                *x = 1e3f + 0.1f * *x;
            else if (i % 3 == 2)
                *x = 3.7f;
        }
}

/* The mean is rounded once per run of rows. The variance has the errors of the means and of their
 * differences. */
static void reduce_oracle(const check_case *c, uint32_t group, double *want, double *allowed)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    uint32_t rows, *row = check_group_rows(c, group, &rows);
    for (uint32_t i = 0; i < width; i++) {
        double mean = 0, var = 0, most = 0;
        for (uint32_t r = 0; r < rows; r++)
            mean += check_at(c, FV_MOMENTS_IN, row[r], i) / rows;
        for (uint32_t r = 0; r < rows; r++) {
            const double x = fabs(check_at(c, FV_MOMENTS_IN, row[r], i) - mean);
            var += x * x / rows;
            most = fmax(most, x);
        }
        const double off = check_allowed(1 + rows / 16., fabs(mean)) + check_allowed(rows, most);
        want[i] = mean;
        allowed[i] = off;
        want[width + i] = var;
        allowed[width + i] = check_allowed(rows, var) + 2 * off * most + off * off;
        want[2 * width + i] = rows * (double)c->args.f[0];
        allowed[2 * width + i] = check_allowed(rows, want[2 * width + i]);
    }
    free(row);
}

/* ---- of groups ---- */

static bool make_merge(check_case *c, uint32_t index)
{
    if (!make_reduce(c, index))
        return false;
    const struct shape *s = &shapes[index];
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    check_matrix(c, FV_MERGE_PARTIAL, CHECK_BASE, s->partials, 3 * s->width, 0);
    check_vector(c, FV_MERGE_STATE, 3 * s->width);
    return true;
}

/* Draws variances, and counts that are equal for all channels. Every partial except the last may
 * have no rows. */
static void prepare_merge(check_case *c, check_random *r)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    const uint32_t parts = c->args.prob.dim[FV_GROUPNORM_PARTIALS];
    for (uint32_t p = 0; p < parts; p++) {
        const uint32_t share = check_below(r, 4) + (p + 1 == parts);
        for (uint32_t i = 0; i < width; i++) {
            float *var = check_value(c, FV_MERGE_PARTIAL, p, width + i);
            *var = fabsf(*var);
            *check_value(c, FV_MERGE_PARTIAL, p, 2 * width + i) = (float)share / (float)(4 * parts);
        }
    }
}

static void merge_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C], parts = c->args.prob.dim[2];
    const uint32_t n = width / c->args.prob.dim[FV_GROUPNORM_GROUPS];
    (void)row;
    for (uint32_t first = 0; first < width; first += n) {
        double all = 0, mean = 0, var = 0, size = 0, most = 0;
        for (int pass = 0; pass < 3; pass++)
            for (uint32_t p = 0; p < parts; p++)
                for (uint32_t i = first; i < first + n; i++) {
                    const double share = check_at(c, FV_MERGE_PARTIAL, p, 2 * width + i) / n;
                    const double x = check_at(c, FV_MERGE_PARTIAL, p, i);
                    if (pass == 0)
                        all += share;
                    if (pass == 1) {
                        mean += x * share / all;
                        size += fabs(x) * share / all;
                    }
                    if (pass == 2) {
                        var += (check_at(c, FV_MERGE_PARTIAL, p, width + i) +
                                (x - mean) * (x - mean)) *
                               share / all;
                        most = fmax(most, share > 0 ? fabs(x - mean) : 0);
                    }
                }
        const double off = check_allowed(parts + n, size + most);
        for (uint32_t i = first; i < first + n; i++) {
            want[i] = mean;
            allowed[i] = off;
            want[width + i] = var;
            allowed[width + i] = check_allowed(parts + n, var) + 2 * off * most + off * off;
            want[2 * width + i] = 1;
            allowed[2 * width + i] = check_allowed(parts, 1);
        }
    }
}

/* ---- rows ---- */

static bool make_rows(check_case *c, uint32_t index)
{
    static const uint32_t acts[] = {0, FV_EPI_RELU, FV_EPI_SILU};
    static const struct {
        uint32_t rows, width, gap;
        bool in_place;
        enum fv_type in, out; /* none: float32 */
    } sizes[] = {
        {1, 1, 0, false},
        {3, 15, 1, true},
        {5, 65, 7, false},
        {7, 132, 2, true},
        {33, 191, 0, false},
        {1024, 256, 0, false},
        {5, 67, 3, false, FV_F32, FV_BF16},
        {3, 130, 0, true, FV_BF16, FV_BF16},
        {2, 31, 1, false, FV_BF16, FV_F32},
    };
    if (index >= 3 * (sizeof sizes / sizeof *sizes))
        return false;
    const uint32_t rows = sizes[index / 3].rows, width = sizes[index / 3].width;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.epi = acts[index % 3];
    c->args.f[0] = 1e-5f;
    check_matrix(c, FV_GN_IN, CHECK_ROW, rows, width, sizes[index / 3].gap);
    check_vector(c, FV_GN_STATE, 3 * width);
    check_vector(c, FV_GN_WEIGHT, width);
    check_vector(c, FV_GN_BIAS, width);
    check_matrix(c, FV_GN_OUT, CHECK_ROW, rows, width, sizes[index / 3].gap);
    if (sizes[index / 3].in)
        c->operand[FV_GN_IN].storage = sizes[index / 3].in;
    if (sizes[index / 3].out)
        c->operand[FV_GN_OUT].storage = sizes[index / 3].out;
    if (sizes[index / 3].in_place)
        c->in_place = FV_GN_IN;
    c->bench = rows == 1024 && c->args.prob.epi == FV_EPI_RELU;
    return true;
}

/* Makes every fifth channel constant. */
static void prepare_rows(check_case *c, check_random *r)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    (void)r;
    for (uint32_t i = 0; i < width; i++) {
        float *var = check_value(c, FV_GN_STATE, 0, width + i);
        *var = i % 5 == 4 ? 0.f : fabsf(*var);
    }
}

static void rows_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C], act = c->args.prob.epi;
    for (uint32_t i = 0; i < width; i++) {
        const double delta = check_at(c, FV_GN_IN, row, i) - check_at(c, FV_GN_STATE, 0, i);
        const double std = sqrt(check_at(c, FV_GN_STATE, 0, width + i) + (double)c->args.f[0]);
        const double w = check_at(c, FV_GN_WEIGHT, 0, i), b = check_at(c, FV_GN_BIAS, 0, i);
        const double y = delta / std * w + b;
        const double off = check_allowed(4, fabs(delta / std * w) + fabs(b)) +
                           FLT_MIN * (1 + fabs(delta) + (1 + fabs(w)) / std);
        want[i] = act ? oracle_activation(act, y) : y;
        allowed[i] = act ? check_activation_error(act, y, off) : off;
    }
}

const check_op check_groupnorm_reduce = {
    .make = make_reduce, .prepare = prepare_reduce, .oracle = reduce_oracle};
const check_op check_groupnorm_merge = {
    .make = make_merge, .prepare = prepare_merge, .oracle = merge_oracle};
const check_op check_groupnorm = {
    .make = make_rows, .prepare = prepare_rows, .oracle = rows_oracle};
