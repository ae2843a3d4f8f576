/* check_resize.c: RESIZE_X and RESIZE_Y: integers bit by bit, with 16-bit and 32-bit weights, and
 * floats, with tables that reach every edge of their input. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "tests/kernels/check_yuv.h"

static const uint32_t shapes[][7] = {
    /* rows, width, channels, input extent, taps, gap; RESIZE_X: flags */
    {1, 1, 1, 1, 1, 0, 0},
    {3, 15, 3, 31, 4, 1, 0},
    {2, 17, 3, 9, 7, 0, 0},
    {13, 33, 1, 65, 5, 3, 0},
    {31, 16, 3, 16, 1, 2, 0},
    {7, 71, 3, 2, 2, 0, 0},
    {19, 40, 1, 41, 3, 0, 0},
    {518, 690, 3, 1200, 9, 0, 0},
    {3, 15, 3, 31, 4, 1, FV_FLAG_NV12},
    {2, 17, 3, 9, 7, 0, FV_FLAG_YUYV},
    {9, 1, 3, 1, 1, 4, FV_FLAG_NV12},
    {13, 33, 3, 65, 5, 3, FV_FLAG_YUYV},
    {9, 33, 3, 166, 5, 0, FV_FLAG_NV12},
    {518, 690, 3, 1200, 9, 0, FV_FLAG_NV12},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PLAIN = 8 };

/* Types of a pass: bytes to bytes, with weights of this number of fractional bits, or bytes or
 * floats to floats. */
static const struct kind {
    uint32_t bits;
    enum fv_type in, out;
} kinds[] = {{22, FV_U8, FV_U8}, {14, FV_U8, FV_U8}, {0, FV_U8, FV_F32}, {0, FV_F32, FV_F32}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Makes `size` positions over `extent` inputs. Weights sum to 1 and have negative lobes. The first
 * and the last position are at the edges, and one in eleven has no taps. */
static fv_resize_table *make_table(uint32_t size, uint32_t extent, uint32_t taps, uint32_t bits,
                                   bool across)
{
    check_random r = {size * 31u + extent};
    fv_resize_table *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->size = size;
    t->taps = taps;
    t->start = calloc(size, sizeof *t->start);
    t->count = calloc(size, sizeof *t->count);
    t->bits = bits;
    t->scale = 0.75f;
    t->whole = calloc((size_t)size * taps, sizeof *t->whole);
    if (!t->start || !t->count || !t->whole)
        abort();
    const uint32_t one_bits = bits ? bits : 16;
    for (uint32_t o = 0; o < size; o++) {
        const uint32_t most = taps < extent ? taps : extent;
        t->count[o] = o % 11 == 10 && o + 1 < size ? 0 : 1 + check_below(&r, most);
        t->start[o] = size > 1 ? (uint32_t)((uint64_t)(extent - t->count[o]) * o / (size - 1)) : 0;
        int32_t left = 1 << one_bits;
        for (uint32_t k = 0; k < t->count[o]; k++) {
            const int32_t w = k + 1 < t->count[o] ? (int32_t)check_below(&r, 3u << (one_bits - 1)) -
                                                        (1 << (one_bits - 1))
                                                  : left;
            t->whole[(size_t)o * taps + k] = w;
            left -= w;
        }
        if (!bits) {
            for (uint32_t k = 0; k < t->count[o]; k++)
                t->real[(size_t)o * taps + k] = (float)t->whole[(size_t)o * taps + k] * 0x1p-16f;
            continue;
        }
        /* The sum must fit 32 bits for any pixels: 255 sum |w| < 2^31 - 2^21. */
        int64_t size_of_weights = 0;
        for (uint32_t k = 0; k < t->count[o]; k++)
            size_of_weights += llabs(t->whole[(size_t)o * taps + k]);
        while (255 * size_of_weights >= (INT64_C(1) << 31) - (1 << 22)) {
            size_of_weights = 0;
            for (uint32_t k = 0; k < t->count[o]; k++)
                size_of_weights += llabs(t->whole[(size_t)o * taps + k] /= 2);
        }
        for (uint32_t k = 0; k < t->count[o] && bits == 14; k++) {
            int32_t *w = &t->whole[(size_t)o * taps + k];
            *w = *w > INT16_MAX ? INT16_MAX : *w < INT16_MIN ? INT16_MIN : *w;
        }
    }
    fv_resize_span(t);
    if (across && fv_resize_narrow(t) != FOVEA_OK)
        abort();
    if (across && (t->narrow != NULL) != (bits == 14))
        abort();
    return t;
}

static void release(check_case *c)
{
    fv_resize_table *table = check_table(c);
    free(table->start);
    free(table->count);
    free(table->whole);
    fv_mem_free(table->narrow);
    free(table);
}

static void numbers(check_case *c, int i, enum fv_type type, enum check_kind kind, uint32_t rows,
                    uint32_t cols, uint32_t gap)
{
    check_matrix(c, i, kind, rows, cols, gap);
    c->operand[i].type = c->operand[i].storage = c->args.type[i] = (uint8_t)type;
    if (type == FV_U8)
        return;
    c->operand[i].scale = 255.f;
    c->operand[i].huge = 1e30f;
}

static bool make_x(check_case *c, uint32_t index)
{
    if (index >= SHAPES * KINDS)
        return false;
    const uint32_t *s = shapes[index % SHAPES];
    const struct kind *k = &kinds[index / SHAPES];
    if (s[6] && k->in == FV_F32) /* skip: another kind covers it */
        k = &kinds[2];
    for (int i = 0; i < 3; i++)
        c->args.prob.dim[i] = s[i];
    c->args.prob.dim[FV_RESIZE_FROM] = s[3];
    c->args.prob.in = (uint8_t)k->in;
    c->args.prob.out = (uint8_t)k->out;
    c->args.prob.flags = s[6];
    c->args.u[0] = index % 3;
    c->args.u[3] = s[6] ? index % 6 : 0;
    c->args.table = make_table(s[1], s[3], s[4], k->bits, true);
    if (s[6])
        check_yuv_frame(c, s[3], s[0] + c->args.u[0], s[5]);
    else
        numbers(c, FV_RESIZE_IN, k->in, CHECK_BASE, s[0] + c->args.u[0], s[3] * s[2], s[5]);
    numbers(c, FV_RESIZE_OUT, k->out, CHECK_ROW, s[0], s[1] * s[2], s[5] * 2);
    c->bench = k->in == FV_U8 && (index % SHAPES == PLAIN - 1 || index % SHAPES == SHAPES - 1);
    return true;
}

static bool make_y(check_case *c, uint32_t index)
{
    if (index >= PLAIN * KINDS)
        return false;
    const uint32_t *s = shapes[index % PLAIN];
    const struct kind *k = &kinds[index / PLAIN];
    for (int i = 0; i < 3; i++)
        c->args.prob.dim[i] = s[i];
    c->args.prob.in = c->args.prob.out = (uint8_t)k->out;
    c->args.table = make_table(s[0], s[3], s[4], k->bits, false);
    numbers(c, FV_RESIZE_IN, k->out, CHECK_BASE, s[3], s[1] * s[2], s[5]);
    numbers(c, FV_RESIZE_OUT, k->out, CHECK_ROW, s[0], s[1] * s[2], s[5] * 2);
    c->bench = k->in == FV_U8 && index % PLAIN == PLAIN - 1;
    return true;
}

static double clip8(double sum, uint32_t bits)
{
    const double v = floor(ldexp(sum, -(int)bits) + 0.5);
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* Computes the sum of position o over the values that `at` returns. */
static void sum_of(const check_case *c, uint32_t o,
                   double (*at)(const check_case *, uint32_t tap, const uint32_t *where),
                   const uint32_t *where, double *want, double *allowed)
{
    const fv_resize_table *t = c->args.table;
    double sum = 0, size = 0;
    for (uint32_t k = 0; k < t->count[o]; k++) {
        const size_t i = (size_t)o * t->taps + k;
        const double term =
            (t->bits ? t->whole[i] : (double)t->real[i]) * at(c, t->start[o] + k, where);
        sum += term;
        size += fabs(term);
    }
    *want = t->bits ? clip8(sum, t->bits) : sum;
    *allowed = t->bits ? 0 : check_allowed(t->count[o], size);
}

static double along(const check_case *c, uint32_t x, const uint32_t *where)
{
    const uint32_t channels = c->args.prob.dim[FV_RESIZE_CHANNELS];
    const fv_resize_table *t = c->args.table;
    const double value = c->args.prob.flags
                             ? check_yuv_at(c, where[0], x, where[1])
                             : check_at(c, FV_RESIZE_IN, where[0], x * channels + where[1]);
    return t->bits || c->args.prob.in == FV_F32 ? value : (double)((float)value * t->scale);
}

static double down(const check_case *c, uint32_t y, const uint32_t *where)
{
    return check_at(c, FV_RESIZE_IN, y, where[0]);
}

static void oracle_x(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_resize_table *t = c->args.table;
    const uint32_t channels = c->args.prob.dim[FV_RESIZE_CHANNELS];
    for (uint32_t i = 0; i < t->size * channels; i++) {
        const uint32_t where[] = {row + c->args.u[0], i % channels};
        sum_of(c, i / channels, along, where, &want[i], &allowed[i]);
    }
}

static void oracle_y(const check_case *c, uint32_t row, double *want, double *allowed)
{
    for (uint32_t i = 0; i < c->operand[FV_RESIZE_OUT].cols; i++)
        sum_of(c, row, down, &i, &want[i], &allowed[i]);
}

const check_op check_resize_x = {.make = make_x, .oracle = oracle_x, .release = release};
const check_op check_resize_y = {.make = make_y, .oracle = oracle_y, .release = release};
