/* quantise.cl: the pre-pass of a product of int8: rotates and rounds rows as src/ops/quantise.h
 * does, to the bit. It writes to the scratch, which both kernels get as their table,
 *
 *   rows x FV_ROW_BYTES of int8, zeros after those of a row | a scale for each row
 *
 * Neighbouring work-items process the runs of a row, of 64 numbers each. Each run is rotated twice:
 * first to find the largest number of the row, which gives the scale, and again to be quantised.
 *
 * Macro defined by the host: FV_ROTATED, how many numbers are rotated together.
 */
#include "gpu/kernels/int8_numbers.cl"
#include "gpu/kernels/row_top.cl"

#define FV_ROW_RUNS ((dim.s2 + 63) / 64)
#define FV_ROW_BYTES (64 * FV_ROW_RUNS)
#define FV_ROW_SCALES                                                                              \
    ((global const float *)((global const char *)table + (size_t)rows * FV_ROW_BYTES))

/* ---- rotation: strides of 8 to 1 within a vector, then of 32 and 16 between vectors ---- */

static inline float4 fv_rotate4(float4 y)
{
    const float4 x = FV_ROTATED > 2 ? (float4)(FV_LOW(y) + FV_HIGH(y), FV_LOW(y) - FV_HIGH(y)) : y;
    return FV_ROTATED > 1 ? (float4)(x.s0 + x.s1, x.s0 - x.s1, x.s2 + x.s3, x.s2 - x.s3) : x;
}
static inline float8 fv_rotate8(float8 y)
{
    const float8 x = FV_ROTATED > 4 ? (float8)(FV_LOW(y) + FV_HIGH(y), FV_LOW(y) - FV_HIGH(y)) : y;
    return (float8)(fv_rotate4(FV_LOW(x)), fv_rotate4(FV_HIGH(x)));
}
static inline float16 fv_rotate16(float16 y)
{
    const float16 x =
        FV_ROTATED > 8 ? (float16)(FV_LOW(y) + FV_HIGH(y), FV_LOW(y) - FV_HIGH(y)) : y;
    return (float16)(fv_rotate8(FV_LOW(x)), fv_rotate8(FV_HIGH(x)));
}
#define FV_BUTTERFLY(a, b)                                                                         \
    do {                                                                                           \
        const float16 sum_ = (a) + (b), rest_ = (a) - (b);                                         \
        a = sum_;                                                                                  \
        b = rest_;                                                                                 \
    } while (0)

/* Loads a run of a row of k numbers and rotates it, in y. A macro, because a function that is not
 * inlined would have y in memory. */
#define FV_GET_ROTATED(y, row, run, k)                                                             \
    do {                                                                                           \
        FV_TIMES(i, 4) {                                                                           \
            const uint from = 64 * (run) + 16 * i;                                                 \
            y[i] = from < (k) ? fv_get_some((row) + from, (int)((k)-from)) : (float16)(0.f);       \
        }                                                                                          \
        if (FV_ROTATED > 32) {                                                                     \
            FV_BUTTERFLY(y[0], y[2]);                                                              \
            FV_BUTTERFLY(y[1], y[3]);                                                              \
        }                                                                                          \
        if (FV_ROTATED > 16) {                                                                     \
            FV_BUTTERFLY(y[0], y[1]);                                                              \
            FV_BUTTERFLY(y[2], y[3]);                                                              \
        }                                                                                          \
        FV_TIMES(i, 4)                                                                             \
            y[i] = fv_rotate16(y[i]);                                                              \
    } while (0)

FV_KERNEL void quantise(FV_ARGS)
{
    const uint runs = FV_ROW_RUNS, lanes = 1u << fv_spread_bits(runs);
    const uint2 me = fv_spread(runs);
    const uint end = me.x < rows ? runs : 0;
    global const FV_CELL(0) *row = FV_AT(0, min(me.x, rows - 1));
    float16 y[4];
    uint top = 0;
    for (uint run = me.y; run < end; run += lanes) {
        FV_GET_ROTATED(y, row, run, dim.s2);
        FV_TIMES(i, 4)
            top = max(top, fv_top(y[i]));
    }
    FV_SHARE_TOP(top, me.y, lanes);
    const float2 scale = fv_scale_of(top);
    global uint *to = (global uint *)table + (size_t)me.x * runs * 16;
    for (uint run = me.y; run < end; run += lanes) {
        FV_GET_ROTATED(y, row, run, dim.s2);
        FV_TIMES(i, 4)
            FV_STORE4(scale.s1 > 0.f ? fv_whole16(y[i] * scale.s1) : (uint4)(0),
                      to + 16 * run + 4 * i);
    }
    if (me.y == 0 && me.x < rows)
        ((global float *)FV_ROW_SCALES)[me.x] = scale.s0;
}
