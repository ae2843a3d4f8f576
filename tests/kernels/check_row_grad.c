/* check_row_grad.c: POSEMB_GRAD, TAKE_GRAD, MEAN_GRAD and UPSAMPLE_GRAD: gradients of ops that
 * select and add rows. */
#include <math.h>
#include <stdlib.h>

#include "ops/preprocess.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/resized.h"
#include "train/ref/training.h"

static const struct shape {
    uint32_t in_w, in_h, out_w, out_h, width, prefix, gap;
    enum fv_pos_rule rule;
    bool plain, adds;
} shapes[] = {
    {1, 1, 1, 1, 1, 0, 0, FV_POS_PLAIN, false, false},
    {3, 3, 3, 3, 16, 1, 0, FV_POS_PLAIN, false, true},
    {4, 3, 7, 5, 17, 2, 3, FV_POS_PLAIN, false, false},
    {5, 5, 3, 8, 15, 1, 1, FV_POS_OFFSET, false, true},
    {6, 6, 4, 3, 133, 5, 0, FV_POS_AA, false, false},
    {4, 4, 9, 2, 64, 0, 2, FV_POS_BILINEAR, false, true},
    {5, 3, 5, 3, 37, 0, 1, FV_POS_PLAIN, true, true},
    {4, 6, 4, 6, 68, 2, 0, FV_POS_PLAIN, true, false},
    {14, 14, 32, 32, 384, 1, 0, FV_POS_PLAIN, false, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static bool make_posemb(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t rows = s->prefix + s->in_w * s->in_h, tokens = s->prefix + s->out_w * s->out_h;
    if (!s->plain) {
        fv_posemb_table *table = check_must(calloc(1, sizeof *table));
        if (fv_posemb_plan(table, s->rule, s->in_w, s->in_h, s->out_w, s->out_h))
            abort();
        c->args.table = table;
    }
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = s->width;
    c->args.prob.dim[FV_GRAD_TOKENS] = tokens;
    c->args.prob.flags = s->adds ? FV_FLAG_ACCUMULATE : 0;
    c->args.u[0] = s->prefix;
    c->args.u[1] = s->out_w;
    c->args.u[2] = s->plain ? 0 : s->in_w;
    check_matrix(c, FV_POSEMB_GRAD_DOUT, CHECK_BASE, tokens, s->width, s->gap);
    check_matrix(c, FV_POSEMB_GRAD_OUT, CHECK_ROW, rows, s->width, s->gap);
    c->adds = s->adds;
    c->bench = index == SHAPES - 1;
    return true;
}

/* Returns the factor of table row (v, w) at patch (y, x). */
static double factor(const fv_posemb_table *t, uint32_t v, uint32_t w, uint32_t y, uint32_t x)
{
    double down = 0, across = 0;
    for (uint32_t i = y * t->taps_y; i < (y + 1) * t->taps_y; i++)
        down += t->index_y[i] == v ? (double)t->weight_y[i] : 0;
    for (uint32_t i = x * t->taps_x; i < (x + 1) * t->taps_x; i++)
        across += t->index_x[i] == w ? (double)t->weight_x[i] : 0;
    return down * across;
}

static void posemb_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_posemb_table *t = c->args.table;
    const uint32_t prefix = c->args.u[0], tokens = c->args.prob.dim[FV_GRAD_TOKENS];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double size = fabs(want[i] = c->adds ? check_at(c, FV_POSEMB_GRAD_OUT, row, i) : 0);
        for (uint32_t token = 0; token < tokens; token++) {
            double part = token == row;
            if (row >= prefix && t) {
                const uint32_t at = row - prefix, grid = c->args.u[1], from = token - prefix;
                part = token < prefix ? 0
                                      : factor(t, at / c->args.u[2], at % c->args.u[2], from / grid,
                                               from % grid);
            }
            if (part == 0)
                continue;
            const double x = part * check_at(c, FV_POSEMB_GRAD_DOUT, token, i);
            want[i] += x;
            size += fabs(x);
        }
        allowed[i] = check_allowed(64, size);
    }
}

static const struct {
    uint32_t rows, width, gap, first, count; /* count: of TAKE_GRAD; first: also MEAN's prefix */
    bool res, in_place;
} sizes[] = {
    {1, 1, 0, 0, 1, false, false},  {5, 17, 2, 1, 3, true, true},     {7, 64, 0, 0, 1, true, false},
    {9, 33, 1, 4, 5, false, false}, {1025, 384, 0, 1, 1, true, true},
};

static bool make_rows(check_case *c, uint32_t index, bool take)
{
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.u[0] = sizes[index].first;
    check_matrix(c, FV_ROW_GRAD_DOUT, CHECK_BASE, take ? sizes[index].count : 1, width, gap);
    if (sizes[index].res)
        check_matrix(c, FV_ROW_GRAD_RES, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_ROW_GRAD_OUT, CHECK_ROW, rows, width, gap);
    c->in_place = sizes[index].in_place ? FV_ROW_GRAD_RES : -1;
    if (take)
        c->args.u[1] = sizes[index].count;
    else
        c->args.f[0] = 1.f / (float)(rows - sizes[index].first);
    c->bench = rows == 1025;
    return true;
}

static bool make_take(check_case *c, uint32_t index)
{
    return make_rows(c, index, true);
}

static bool make_mean(check_case *c, uint32_t index)
{
    return make_rows(c, index, false);
}

static void take_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t first = c->args.u[0], count = c->args.u[1];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double res =
            c->operand[FV_ROW_GRAD_RES].kind ? check_at(c, FV_ROW_GRAD_RES, row, i) : 0;
        const double x =
            row >= first && row < first + count ? check_at(c, FV_ROW_GRAD_DOUT, row - first, i) : 0;
        want[i] = res + x;
        allowed[i] = check_allowed(1, fabs(res) + fabs(x));
    }
}

static void mean_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double res =
            c->operand[FV_ROW_GRAD_RES].kind ? check_at(c, FV_ROW_GRAD_RES, row, i) : 0;
        const double x =
            row >= c->args.u[0] ? (double)c->args.f[0] * check_at(c, FV_ROW_GRAD_DOUT, 0, i) : 0;
        want[i] = res + x;
        allowed[i] = check_allowed(2, fabs(res) + fabs(x));
    }
}

/* ---- resized grids ---- */

static const struct {
    uint32_t in_w, in_h, out_w, out_h, width, gap, flags;
    bool res, in_place;
} grids[] = {
    {1, 1, 1, 1, 1, 0, 0, false, false},
    {3, 2, 7, 5, 17, 2, 0, true, true},
    {7, 5, 3, 2, 5, 0, 0, true, false},
    {4, 4, 8, 8, 33, 1, FV_FLAG_ALIGN_CORNERS, false, false},
    {9, 7, 5, 21, 16, 0, FV_FLAG_ALIGN_CORNERS, true, true},
    {1, 6, 4, 1, 3, 0, FV_FLAG_ALIGN_CORNERS, false, false},
    {5, 3, 11, 4, 15, 3, FV_FLAG_NEAREST, true, false},
    {11, 4, 5, 3, 8, 0, FV_FLAG_NEAREST, false, false},
    {32, 32, 64, 64, 128, 0, 0, true, true},
};

static bool make_resized(check_case *c, uint32_t index)
{
    if (index >= sizeof grids / sizeof *grids)
        return false;
    const uint32_t rows = grids[index].in_w * grids[index].in_h;
    const uint32_t from = grids[index].out_w * grids[index].out_h;
    const uint32_t width = grids[index].width, gap = grids[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.flags = grids[index].flags;
    c->args.u[0] = grids[index].in_w;
    c->args.u[1] = grids[index].out_w;
    c->args.u[2] = grids[index].out_h;
    check_matrix(c, FV_ROW_GRAD_DOUT, CHECK_BASE, from, width, gap);
    if (grids[index].res)
        check_matrix(c, FV_ROW_GRAD_RES, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_ROW_GRAD_OUT, CHECK_ROW, rows, width, gap);
    c->in_place = grids[index].in_place ? FV_ROW_GRAD_RES : -1;
    c->bench = index + 1 == sizeof grids / sizeof *grids;
    return true;
}

/* Returns the weight of pixel `of` of `from` in pixel `at` of `to`, in double precision. */
static double counts(uint32_t at, uint32_t to, uint32_t of, uint32_t from, uint32_t flags)
{
    const double x = resized_coordinate(at, to, from, flags);
    const uint32_t low = (uint32_t)fmin(floor(x), from - 1.0);
    const uint32_t high = low + 1 < from ? low + 1 : low;
    return (low == of ? 1 - (x - low) : 0) + (high == of ? x - low : 0);
}

static void resized_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *u = c->args.u, flags = c->args.prob.flags;
    const uint32_t high = c->args.prob.dim[FV_DIM_ROWS] / u[0];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const bool adds = c->operand[FV_ROW_GRAD_RES].kind;
        double size = fabs(want[i] = adds ? check_at(c, FV_ROW_GRAD_RES, row, i) : 0);
        for (uint32_t k = 0; k < u[1] * u[2]; k++) {
            const double part = counts(k / u[1], u[2], row / u[0], high, flags) *
                                counts(k % u[1], u[1], row % u[0], u[0], flags);
            if (part == 0)
                continue;
            const double x = part * check_at(c, FV_ROW_GRAD_DOUT, k, i);
            want[i] += x;
            size += fabs(check_at(c, FV_ROW_GRAD_DOUT, k, i));
        }
        allowed[i] = check_allowed(64, size);
    }
}

const check_op check_upsample_grad = {.make = make_resized, .oracle = resized_oracle};
const check_op check_posemb_grad = {
    .make = make_posemb, .oracle = posemb_oracle, .release = check_release_posemb};
const check_op check_take_grad = {.make = make_take, .oracle = take_oracle};
const check_op check_mean_grad = {.make = make_mean, .oracle = mean_oracle};
