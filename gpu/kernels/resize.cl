/* resize.cl: the two passes of a picture's resize, in whole numbers: ref_resize_x.c, bit for bit.
 *
 * table: taps; of every position its first input, of every position its number of taps, of every
 * position `taps` weights; in resize_x of luma and chroma what those are multiplied by. */

#if FV_FLAGS & (FV_FLAG_NV12 | FV_FLAG_YUYV)
#include "gpu/kernels/yuv_common.cl"
#define PIXEL(column, line)                                                                        \
    convert_int3(convert_uchar3_sat(                                                               \
        yuv_pixel(base0 + at0.x, at0.y, (global const uchar *)base1 + at1.x, at1.y, column, line,  \
                  (global const yuv *)(table + 1 + (2 + (size_t)table[0]) * dim.s1))))
#elif CHANNELS == 3
#define PIXEL(column, line) convert_int3(vload3(column, FV_AT(0, line)))
#else
#define PIXEL(column, line) (int3)(FV_AT(0, line)[column])
#endif

typedef struct taps {
    uint start, count;
    global const int *weight;
} taps;

static inline taps taps_of(global const uint *table, uint positions, uint o)
{
    taps t;
    t.start = table[1 + o];
    t.count = table[1 + positions + o];
    t.weight = (global const int *)table + 1 + 2 * positions + (size_t)o * table[0];
    return t;
}

/* A work-item has one pixel, of CHANNELS bytes. */
FV_KERNEL void resize_x(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint2 me = fv_spread(dim.s1);
    if (me.x >= rows || me.y >= dim.s1)
        return;
    const taps t = taps_of(table, dim.s1, me.y);
    int3 sum = (int3)(1 << 21);
    for (uint k = 0; k < t.count; k++)
        sum += PIXEL(t.start + k, row0 + me.x + u.s0) * t.weight[k];
    const uchar3 value = convert_uchar3_sat(sum >> 22);
    global uchar *out = FV_AT(2, me.x) + me.y * CHANNELS;
    if (CHANNELS == 3)
        vstore3(value, 0, out);
    else
        *out = value.x;
}

/* A work-item has 16 bytes of a row, or what is left of it. */
FV_KERNEL void resize_y(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint bytes = dim.s1 * dim.s2;
    const uint2 me = fv_spread((bytes + 15) / 16);
    if (me.x >= rows || 16 * me.y >= bytes)
        return;
    const taps t = taps_of(table, dim.s0, row0 + me.x);
    global const uchar *from = FV_AT(0, t.start) + 16 * me.y;
    global uchar *out = FV_AT(2, me.x) + 16 * me.y;
    const uint left = bytes - 16 * me.y;
    if (left >= 16) {
        int16 sum = 1 << 21;
        for (uint k = 0; k < t.count; k++)
            sum += convert_int16(FV_LOAD16(from + (size_t)k * at0.y)) * t.weight[k];
        FV_STORE16(convert_uchar16_sat(sum >> 22), out);
        return;
    }
    for (uint b = 0; b < left; b++) {
        int sum = 1 << 21;
        for (uint k = 0; k < t.count; k++)
            sum += from[(size_t)k * at0.y + b] * t.weight[k];
        out[b] = convert_uchar_sat(sum >> 22);
    }
}
