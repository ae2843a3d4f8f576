/* resize.cl: the two passes of a picture's resize, as in ref_resize_x.c. If results are bytes, sums
 * are integers and the same to the bit; else they are floats.
 *
 * table: the most taps, the fractional bits of the weights, the factor for bytes that become
 * floats. Then the first input of every position, the number of taps of every position, and `taps`
 * weights of every position. In resize_x of luma and chroma their coefficients follow. */

/* Whether operand 2, the result, is of floats. */
#define REAL_u8 0
#define REAL_f32 1
#define REAL FV_CAT(REAL_, FV_T2)

#if REAL
typedef float number;
/* Scales bytes to the range of floats; other types are in that range already. */
#define SCALED_u8(x, t) (convert_float(x) * (t).scale)
#define SCALED_f32(x, t) (x)
#else
typedef int number;
#define SCALED_u8(x, t) convert_int(x)
#define SCALED_f32(x, t) convert_int(x)
#endif

/* A number of operand 0. */
#define SCALED FV_CAT(SCALED_, FV_T0)

typedef struct taps {
    uint start, count, bits;
    float scale;
    global const number *weight;
} taps;

static inline taps taps_of(global const uint *table, uint positions, uint o)
{
    taps t;
    t.bits = table[1];
    t.scale = as_float(table[2]);
    t.start = table[3 + o];
    t.count = table[3 + positions + o];
    t.weight = (global const number *)table + 3 + 2 * positions + (size_t)o * table[0];
    return t;
}

/* The first value of a sum, and the result of a finished sum. */
static inline number begin_of(taps t)
{
#if REAL
    return 0.f;
#else
    return 1 << (t.bits - 1);
#endif
}

static inline void put_sum(global FV_CELL(2) *out, number sum, taps t)
{
#if REAL
    *out = sum;
#else
    *out = convert_uchar_sat(sum >> t.bits);
#endif
}

#if FV_FLAGS & (FV_FLAG_NV12 | FV_FLAG_YUYV)
#define YUV 1
#include "gpu/kernels/yuv_common.cl"
#else
#define YUV 0
#endif

#if FV_COMPILES(resize_x)
/* A work-item computes one pixel, of CHANNELS numbers. */
FV_KERNEL void resize_x(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint2 me = fv_spread(dim.s1);
    if (me.x >= rows || me.y >= dim.s1)
        return;
    const taps t = taps_of(table, dim.s1, me.y);
    const uint line = row0 + me.x + u.s0;
    number red = begin_of(t), green = red, blue = red;
    for (uint k = 0; k < t.count; k++) {
#if YUV
        const int3 rgb =
            yuv_pixel(base0 + at0.x, at0.y, (global const uchar *)base1 + at1.x, at1.y, t.start + k,
                      line, (global const yuv *)(table + 3 + (2 + (size_t)table[0]) * dim.s1));
        red += SCALED_u8(convert_uchar_sat(rgb.x), t) * t.weight[k];
        green += SCALED_u8(convert_uchar_sat(rgb.y), t) * t.weight[k];
        blue += SCALED_u8(convert_uchar_sat(rgb.z), t) * t.weight[k];
#else
        global const FV_CELL(0) *pixel = FV_AT(0, line) + (t.start + k) * CHANNELS;
        red += SCALED(pixel[0], t) * t.weight[k];
        if (CHANNELS == 3) {
            green += SCALED(pixel[1], t) * t.weight[k];
            blue += SCALED(pixel[2], t) * t.weight[k];
        }
#endif
    }
    global FV_CELL(2) *out = FV_AT(2, me.x) + me.y * CHANNELS;
    put_sum(out, red, t);
    if (CHANNELS == 3) {
        put_sum(out + 1, green, t);
        put_sum(out + 2, blue, t);
    }
}
#endif

#if FV_COMPILES(resize_y)
/* A work-item computes 16 numbers of a row, or those that are left. */
FV_KERNEL void resize_y(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint numbers = dim.s1 * dim.s2;
    const uint2 me = fv_spread((numbers + 15) / 16);
    if (me.x >= rows || 16 * me.y >= numbers)
        return;
    const taps t = taps_of(table, dim.s0, row0 + me.x);
    /* Here operand 0 has the type of the result; in a program of resize_x it may have another. */
    global const FV_CELL(2) *from = (global const FV_CELL(2) *)FV_AT(0, t.start) + 16 * me.y;
    global FV_CELL(2) *out = FV_AT(2, me.x) + 16 * me.y;
    const uint left = numbers - 16 * me.y;
    if (left >= 16) {
#if REAL
        float16 sum = 0.f;
        for (uint k = 0; k < t.count; k++)
            sum += FV_LOAD16(from + (size_t)k * at0.y) * t.weight[k];
        FV_STORE16(sum, out);
#else
        int16 sum = begin_of(t);
        for (uint k = 0; k < t.count; k++)
            sum += convert_int16(FV_LOAD16(from + (size_t)k * at0.y)) * t.weight[k];
        FV_STORE16(convert_uchar16_sat(sum >> convert_int(t.bits)), out);
#endif
        return;
    }
    for (uint i = 0; i < left; i++) {
        number sum = begin_of(t);
        for (uint k = 0; k < t.count; k++)
            sum += (number)from[(size_t)k * at0.y + i] * t.weight[k];
        put_sum(out + i, sum, t);
    }
}
#endif
