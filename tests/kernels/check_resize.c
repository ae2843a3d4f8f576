/* check_resize.c: RESIZE_X and RESIZE_Y: the fixed-point passes of Pillow's resampling, bit by bit,
 * with tables that reach every edge of their input. */
#include <math.h>
#include <stdlib.h>

#include "ops/preprocess.h"
#include "tests/kernels/check_yuv.h"

static const uint32_t shapes[][7] = {
    /* rows, width, channels, input extent, taps, gap; RESIZE_X: flags */
    {1, 1, 1, 1, 1, 0, 0},
    {3, 15, 3, 31, 4, 1, 0},
    {2, 17, 3, 9, 7, 0, 0},
    {13, 33, 1, 65, 5, 3, 0},
    {31, 16, 3, 16, 1, 2, 0},
    {518, 690, 3, 1200, 9, 0, 0},
    {3, 15, 3, 31, 4, 1, FV_FLAG_NV12},
    {2, 17, 3, 9, 7, 0, FV_FLAG_YUYV},
    {9, 1, 3, 1, 1, 4, FV_FLAG_NV12},
    {13, 33, 3, 65, 5, 3, FV_FLAG_YUYV},
    {9, 33, 3, 166, 5, 0, FV_FLAG_NV12},
    {518, 690, 3, 1200, 9, 0, FV_FLAG_NV12},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PLAIN = 6 };

/* `size` positions over `extent` inputs: weights that sum to 1 with negative lobes, the first and
 * the last position at the very edges, one in eleven without taps. */
static fv_resize_table *make_table(uint32_t size, uint32_t extent, uint32_t taps)
{
    check_random r = {size * 31u + extent};
    fv_resize_table *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->size = size;
    t->taps = taps;
    t->start = calloc(size, sizeof *t->start);
    t->count = calloc(size, sizeof *t->count);
    t->weight = calloc((size_t)size * taps, sizeof *t->weight);
    if (!t->start || !t->count || !t->weight)
        abort();
    for (uint32_t o = 0; o < size; o++) {
        const uint32_t most = taps < extent ? taps : extent;
        t->count[o] = o % 11 == 10 && o + 1 < size ? 0 : 1 + check_below(&r, most);
        t->start[o] = size > 1 ? (uint32_t)((uint64_t)(extent - t->count[o]) * o / (size - 1)) : 0;
        int32_t left = 1 << 22;
        for (uint32_t k = 0; k < t->count[o]; k++) {
            const int32_t w =
                k + 1 < t->count[o] ? (int32_t)check_below(&r, 3 << 21) - (1 << 21) : left;
            t->weight[(size_t)o * taps + k] = w;
            left -= w;
        }
        /* The sum must fit 32 bits for any pixels: 255 sum |w| < 2^31 - 2^21. */
        int64_t size_of_weights = 0;
        for (uint32_t k = 0; k < t->count[o]; k++)
            size_of_weights += llabs(t->weight[(size_t)o * taps + k]);
        while (255 * size_of_weights >= (INT64_C(1) << 31) - (1 << 22)) {
            size_of_weights = 0;
            for (uint32_t k = 0; k < t->count[o]; k++)
                size_of_weights += llabs(t->weight[(size_t)o * taps + k] /= 2);
        }
    }
    fv_resize_span(t);
    return t;
}

static void release(check_case *c)
{
    fv_resize_table *table = check_table(c);
    free(table->start);
    free(table->count);
    free(table->weight);
    free(table);
}

static void bytes(check_case *c, int i, enum check_kind kind, uint32_t rows, uint32_t cols,
                  uint32_t gap)
{
    check_matrix(c, i, kind, rows, cols, gap);
    c->operand[i].type = FV_U8;
}

static bool make_x(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const uint32_t *s = shapes[index];
    for (int i = 0; i < 3; i++)
        c->args.prob.dim[i] = s[i];
    c->args.prob.dim[FV_RESIZE_FROM] = s[3];
    c->args.prob.in = c->args.prob.out = FV_U8;
    c->args.prob.flags = s[6];
    c->args.u[0] = index % 3;
    c->args.u[3] = s[6] ? index % 6 : 0;
    c->args.table = make_table(s[1], s[3], s[4]);
    if (s[6])
        check_yuv_frame(c, s[3], s[0] + c->args.u[0], s[5]);
    else
        bytes(c, FV_RESIZE_IN, CHECK_BASE, s[0] + c->args.u[0], s[3] * s[2], s[5]);
    bytes(c, FV_RESIZE_OUT, CHECK_ROW, s[0], s[1] * s[2], s[5] * 2);
    c->bench = index == PLAIN - 1 || index == SHAPES - 1;
    return true;
}

static bool make_y(check_case *c, uint32_t index)
{
    if (index >= PLAIN)
        return false;
    const uint32_t *s = shapes[index];
    for (int i = 0; i < 3; i++)
        c->args.prob.dim[i] = s[i];
    c->args.prob.in = c->args.prob.out = FV_U8;
    c->args.table = make_table(s[0], s[3], s[4]);
    bytes(c, FV_RESIZE_IN, CHECK_BASE, s[3], s[1] * s[2], s[5]);
    bytes(c, FV_RESIZE_OUT, CHECK_ROW, s[0], s[1] * s[2], s[5] * 2);
    c->bench = index == PLAIN - 1;
    return true;
}

static double clip8(double sum)
{
    const double v = floor((sum + 0x1p21) / 0x1p22);
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

static void oracle_x(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_resize_table *t = c->args.table;
    const uint32_t channels = c->args.prob.dim[FV_RESIZE_CHANNELS], y = row + c->args.u[0];
    for (uint32_t i = 0; i < t->size * channels; i++) {
        const uint32_t o = i / channels, channel = i % channels;
        double sum = 0;
        for (uint32_t k = 0; k < t->count[o]; k++) {
            const uint32_t x = t->start[o] + k;
            sum += t->weight[o * t->taps + k] *
                   (c->args.prob.flags ? check_yuv_at(c, y, x, channel)
                                       : check_at(c, FV_RESIZE_IN, y, x * channels + channel));
        }
        want[i] = clip8(sum);
        allowed[i] = 0;
    }
}

static void oracle_y(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_resize_table *t = c->args.table;
    for (uint32_t i = 0; i < c->operand[FV_RESIZE_OUT].cols; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < t->count[row]; k++)
            sum += t->weight[row * t->taps + k] * check_at(c, FV_RESIZE_IN, t->start[row] + k, i);
        want[i] = clip8(sum);
        allowed[i] = 0;
    }
}

const check_op check_resize_x = {.make = make_x, .oracle = oracle_x, .release = release};
const check_op check_resize_y = {.make = make_y, .oracle = oracle_y, .release = release};
