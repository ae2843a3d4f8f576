/* check_patch.c: PATCH: pixels of every format to normalised patch rows. */
#include <math.h>
#include <stddef.h>

#include "check.h"
#include "preprocess.h"

static const uint32_t shapes[][6] = {
    /* grid width, grid height, P, prefix, gap, flags */
    {1, 1, 1, 0, 0, 0},
    {2, 3, 7, 1, 5, 0},
    {3, 2, 14, 5, 0, FV_FLAG_BGR},
    {5, 1, 16, 2, 3, FV_FLAG_GRAY},
    {4, 3, 8, 0, 1, FV_FLAG_GRAY},
    {3, 5, 14, 1, 2, FV_FLAG_PLANAR},
    {1, 4, 17, 0, 0, FV_FLAG_PLANAR},
    {7, 2, 16, 1, 0, 0},
    {3, 1, 11, 1, 4, FV_FLAG_BGR},
    {74, 74, 14, 1, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const fv_patch_table table = {.scale = {0.0171f, 0.0175f, 0.0174f},
                                     .shift = {-2.118f, -2.036f, -1.804f}};

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const uint32_t *s = shapes[index], rows = s[3] + s[0] * s[1];
    const bool planar = s[5] == FV_FLAG_PLANAR;
    c->args.prob.dim[0] = rows;
    c->args.prob.dim[1] = 3 * s[2] * s[2];
    c->args.prob.dim[2] = s[2];
    c->args.prob.flags = s[5];
    c->args.prob.in = planar ? FV_F32 : FV_U8;
    c->args.u[0] = s[3];
    c->args.u[1] = s[0];
    c->args.table = &table;
    const uint32_t height = s[1] * s[2], width = s[0] * s[2];
    check_matrix(c, FV_PATCH_IN, CHECK_BASE, planar ? 3 * height : height,
                 s[5] == FV_FLAG_GRAY || planar ? width : 3 * width, s[4]);
    c->operand[FV_PATCH_IN].type = c->args.prob.in;
    c->args.u[2] = planar ? height * c->operand[FV_PATCH_IN].ld : 0;
    check_matrix(c, FV_PATCH_OUT, CHECK_ROW, rows, c->args.prob.dim[1], s[4] / 2);
    c->bench = index == SHAPES - 1;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t side = c->args.prob.dim[2], flags = c->args.prob.flags;
    const uint32_t prefix = c->args.u[0], grid = c->args.u[1];
    const uint32_t height = c->operand[FV_PATCH_IN].rows / 3;
    for (uint32_t i = 0; i < c->args.prob.dim[1]; i++) {
        want[i] = allowed[i] = 0;
        if (row < prefix)
            continue;
        const uint32_t channel = i / (side * side);
        const uint32_t y = (row - prefix) / grid * side + i / side % side;
        const uint32_t x = (row - prefix) % grid * side + i % side;
        if (flags == FV_FLAG_PLANAR) {
            want[i] = check_at(c, FV_PATCH_IN, channel * height + y, x);
            continue;
        }
        const uint32_t at = flags == FV_FLAG_GRAY  ? x
                            : flags == FV_FLAG_BGR ? 3 * x + 2 - channel
                                                   : 3 * x + channel;
        const double scaled = check_at(c, FV_PATCH_IN, y, at) * (double)table.scale[channel];
        want[i] = scaled + (double)table.shift[channel];
        allowed[i] = check_allowed(0, (scaled + fabs((double)table.shift[channel])) / 4);
    }
}

const check_op check_patch = {.make = make, .oracle = oracle};
