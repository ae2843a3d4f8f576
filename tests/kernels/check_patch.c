/* check_patch.c: PATCH: converts pixels of every format to normalised patch rows. */
#include <math.h>
#include <stddef.h>

#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "tests/kernels/check_yuv.h"

static const struct shape {
    uint32_t width, height, side, stride, pad, prefix, gap, flags; /* width, height in pixels */
    bool bench, real;
    uint32_t more_above; /* rows missing above, in addition to `pad` */
} shapes[] = {
    {1, 1, 1, 1, 0, 0, 0, 0, false},
    {14, 21, 7, 7, 0, 1, 5, 0, false},
    {42, 28, 14, 14, 0, 5, 0, FV_FLAG_BGR, false},
    {80, 16, 16, 16, 0, 2, 3, FV_FLAG_GRAY, false},
    {32, 24, 8, 8, 0, 0, 1, FV_FLAG_GRAY, false},
    {42, 70, 14, 14, 0, 1, 2, FV_FLAG_PLANAR, false},
    {17, 68, 17, 17, 0, 0, 0, FV_FLAG_PLANAR, false},
    {112, 32, 16, 16, 0, 1, 0, 0, false},
    {33, 11, 11, 11, 0, 1, 4, FV_FLAG_BGR, false},
    /* remainders that are ignored, overlaps, and windows that extend beyond every side */
    {31, 20, 8, 8, 0, 1, 0, 0, false},
    {8, 6, 3, 2, 1, 0, 0, 0, false},
    {9, 7, 3, 2, 1, 0, 2, FV_FLAG_BGR, false},
    {10, 13, 7, 4, 3, 0, 0, FV_FLAG_PLANAR, false},
    {11, 5, 7, 4, 2, 2, 1, FV_FLAG_GRAY, false},
    {3, 2, 5, 3, 4, 0, 0, 0, false}, /* some windows entirely outside */
    {2, 3, 4, 2, 2, 1, 0, FV_FLAG_PLANAR, false},
    {31, 20, 8, 8, 0, 1, 3, 0, .real = true},
    {42, 28, 14, 14, 0, 5, 0, FV_FLAG_BGR, .real = true},
    {9, 7, 3, 2, 1, 0, 2, FV_FLAG_GRAY, .real = true},
    {40, 24, 8, 8, 3, 1, 0, 0, .real = true, .more_above = 6},
    {42, 28, 14, 14, 0, 1, 2, 0, .more_above = 9},
    {33, 21, 8, 8, 2, 0, 5, FV_FLAG_NV12, .more_above = 3},
    {17, 11, 4, 3, 1, 0, 0, FV_FLAG_PLANAR, .more_above = 2},
    {42, 28, 14, 14, 0, 1, 0, FV_FLAG_NV12, false},
    {31, 21, 8, 8, 0, 1, 5, FV_FLAG_NV12, false},
    {9, 7, 3, 2, 1, 0, 2, FV_FLAG_NV12, false},
    {1, 1, 1, 1, 0, 1, 0, FV_FLAG_NV12, false},
    {601, 9, 7, 5, 2, 0, 0, FV_FLAG_NV12,
     false}, /* converted in several strips, some of which begin at odd columns */
    {301, 259, 299, 299, 20, 0, 0, FV_FLAG_NV12, false}, /* wider than a strip */
    {80, 16, 16, 16, 0, 2, 3, FV_FLAG_YUYV, false},
    {33, 11, 11, 11, 0, 1, 4, FV_FLAG_YUYV, false},
    {11, 5, 7, 4, 2, 2, 1, FV_FLAG_YUYV, false},
    {3, 2, 5, 3, 4, 0, 0, FV_FLAG_YUYV, false},
    {1036, 1036, 14, 14, 0, 1, 0, FV_FLAG_NV12, true},
    {1036, 1036, 14, 14, 0, 1, 0, FV_FLAG_YUYV, true},
    {1036, 1036, 14, 14, 0, 1, 0, 0, true},
    {401, 300, 3, 2, 1, 0, 0, 0, true},
    {401, 301, 7, 4, 2, 0, 0, 0, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const fv_patch_table table = {.scale = {0.0171f, 0.0175f, 0.0174f},
                                     .shift = {-2.118f, -2.036f, -1.804f}};

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t across = (s->width + 2 * s->pad - s->side) / s->stride + 1;
    const uint32_t down = (s->height + 2 * s->pad + s->more_above - s->side) / s->stride + 1;
    const uint32_t dim[] = {s->prefix + across * down,
                            3 * s->side * s->side,
                            s->side,
                            s->stride,
                            s->pad,
                            s->width,
                            s->height,
                            s->pad + s->more_above};
    const bool planar = s->flags == FV_FLAG_PLANAR, gray = s->flags == FV_FLAG_GRAY;
    for (uint32_t i = 0; i < sizeof dim / sizeof *dim; i++)
        c->args.prob.dim[i] = dim[i];
    c->args.prob.flags = s->flags;
    c->args.prob.in = planar || s->real ? FV_F32 : FV_U8;
    c->args.u[0] = s->prefix;
    c->args.u[1] = across;
    c->args.table = &table;
    c->args.u[3] = s->flags & FV_FLAG_YUV ? index % 6 : 0;
    if (s->flags & FV_FLAG_YUV)
        check_yuv_frame(c, s->width, s->height, s->gap);
    else
        check_matrix(c, FV_PATCH_IN, CHECK_BASE, planar ? 3 * s->height : s->height,
                     planar || gray ? s->width : 3 * s->width, s->gap);
    c->operand[FV_PATCH_IN].type = c->args.prob.in;
    c->args.u[2] = planar ? s->height * c->operand[FV_PATCH_IN].ld : 0;
    check_matrix(c, FV_PATCH_OUT, CHECK_ROW, dim[0], dim[1], s->gap / 2);
    c->bench = s->bench;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, side = dim[FV_PATCH_SIZE], flags = c->args.prob.flags;
    const uint32_t prefix = c->args.u[0], grid = c->args.u[1], height = dim[FV_PATCH_HEIGHT];
    for (uint32_t i = 0; i < dim[FV_ROW_C]; i++) {
        want[i] = allowed[i] = 0;
        if (row < prefix)
            continue;
        const uint32_t channel = i / (side * side);
        const uint32_t from_top = (row - prefix) / grid * dim[FV_PATCH_STRIDE] + i / side % side;
        const uint32_t from_left = (row - prefix) % grid * dim[FV_PATCH_STRIDE] + i % side;
        const uint32_t y = from_top - dim[FV_PATCH_PAD_Y], x = from_left - dim[FV_PATCH_PAD_X];
        if (from_top < dim[FV_PATCH_PAD_Y] || from_left < dim[FV_PATCH_PAD_X] || y >= height ||
            x >= dim[FV_PATCH_WIDTH])
            continue;
        if (flags == FV_FLAG_PLANAR) {
            want[i] = check_at(c, FV_PATCH_IN, channel * height + y, x);
            continue;
        }
        const uint32_t at = flags == FV_FLAG_GRAY  ? x
                            : flags == FV_FLAG_BGR ? 3 * x + 2 - channel
                                                   : 3 * x + channel;
        const double value =
            flags & FV_FLAG_YUV ? check_yuv_at(c, y, x, channel) : check_at(c, FV_PATCH_IN, y, at);
        const double scaled = value * (double)table.scale[channel];
        want[i] = scaled + (double)table.shift[channel];
        allowed[i] = check_allowed(0, (fabs(scaled) + fabs((double)table.shift[channel])) / 4);
    }
}

const check_op check_patch = {.make = make, .oracle = oracle};
