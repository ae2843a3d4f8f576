/* check_posemb.c: POSEMB: prefix rows, and a position table that is resized while it is read. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/rows.h"
#include "ops/preprocess.h"
#include "tests/kernels/check.h"

static const struct shape {
    uint32_t in_w, in_h, out_w, out_h, width, prefix, gap;
    enum fv_pos_rule rule;
    bool in_place, plain; /* plain: a table of the grid's size, without taps; side 0: no table */
    enum fv_type type;
} shapes[] = {
    {1, 1, 1, 1, 1, 0, 0, FV_POS_PLAIN, false, false, FV_F32},
    {3, 3, 3, 3, 16, 1, 0, FV_POS_PLAIN, true, false, FV_F32},
    {4, 3, 7, 5, 17, 2, 3, FV_POS_PLAIN, true, false, FV_F32},
    {5, 5, 3, 8, 15, 1, 1, FV_POS_OFFSET, false, false, FV_F32},
    {6, 6, 4, 3, 33, 5, 0, FV_POS_AA, true, false, FV_F32},
    {4, 4, 9, 2, 64, 0, 2, FV_POS_BILINEAR, false, false, FV_F32},
    {5, 3, 5, 3, 37, 0, 1, FV_POS_PLAIN, false, true, FV_F32},
    {4, 6, 4, 6, 68, 2, 0, FV_POS_PLAIN, true, true, FV_F32},
    {4, 3, 7, 5, 21, 1, 3, FV_POS_PLAIN, false, false, FV_F16},
    {6, 6, 4, 3, 66, 2, 0, FV_POS_AA, true, false, FV_BF16},
    {5, 3, 5, 3, 35, 1, 0, FV_POS_PLAIN, true, true, FV_F16},
    {3, 5, 3, 5, 80, 0, 2, FV_POS_PLAIN, false, true, FV_BF16},
    {0, 0, 4, 3, 37, 3, 2, FV_POS_PLAIN, true, true, FV_F32},
    {0, 0, 5, 2, 16, 1, 0, FV_POS_PLAIN, false, true, FV_F32},
    {16, 16, 74, 74, 384, 1, 0, FV_POS_AA, true, false, FV_F32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t rows = s->prefix + s->out_w * s->out_h;
    if (!s->plain) {
        fv_posemb_table *table = calloc(1, sizeof *table);
        if (!table || fv_posemb_plan(table, s->rule, s->in_w, s->in_h, s->out_w, s->out_h))
            abort();
        c->args.table = table;
    }
    c->args.prob.weight = s->type;
    c->args.prob.dim[0] = rows;
    c->args.prob.dim[1] = s->width;
    c->args.u[0] = s->prefix;
    c->args.u[1] = s->out_w;
    c->args.u[2] = s->plain ? 0 : s->in_w;
    check_matrix(c, FV_POSEMB_IN, CHECK_ROW, rows, s->width, s->gap);
    if (s->prefix)
        check_matrix(c, FV_POSEMB_PREFIX, CHECK_BASE, s->prefix, s->width, 0);
    if (s->in_w) {
        check_matrix(c, FV_POSEMB_TABLE, CHECK_BASE, s->in_w * s->in_h, s->width, 0);
        c->operand[FV_POSEMB_TABLE].type = s->type;
    }
    check_matrix(c, FV_POSEMB_OUT, CHECK_ROW, rows, s->width, s->gap);
    c->in_place = s->in_place ? FV_POSEMB_IN : -1;
    c->bench = index == SHAPES - 1;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_posemb_table *t = c->args.table;
    const uint32_t prefix = c->args.u[0], grid = c->args.u[1];
    for (uint32_t i = 0; i < c->args.prob.dim[1]; i++) {
        allowed[i] = 0;
        if (row < prefix) {
            want[i] = check_at(c, FV_POSEMB_PREFIX, row, i);
            continue;
        }
        const uint32_t y = (row - prefix) / grid, x = (row - prefix) % grid;
        want[i] = check_at(c, FV_POSEMB_IN, row, i);
        double size = fabs(want[i]);
        if (c->operand[FV_POSEMB_TABLE].kind == CHECK_ABSENT)
            continue;
        if (!t) {
            const double add = check_at(c, FV_POSEMB_TABLE, row - prefix, i);
            want[i] += add;
            allowed[i] = check_allowed(1, size + fabs(add));
            continue;
        }
        for (uint32_t ty = 0; ty < t->taps_y; ty++)
            for (uint32_t tx = 0; tx < t->taps_x; tx++) {
                const uint32_t iy = y * t->taps_y + ty, ix = x * t->taps_x + tx;
                const double add =
                    (double)t->weight_y[iy] * (double)t->weight_x[ix] *
                    check_at(c, FV_POSEMB_TABLE, t->index_y[iy] * c->args.u[2] + t->index_x[ix], i);
                want[i] += add;
                size += fabs(add);
            }
        allowed[i] = check_allowed(t->taps_x * t->taps_y, size);
    }
}

const check_op check_posemb = {.make = make, .oracle = oracle, .release = check_release_posemb};
