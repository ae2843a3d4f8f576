/* patch.cl: converts pixels to normalised patch rows. A work-item computes four numbers of a row,
 * which need not be in one row of pixels. SIDE: pixels in a patch's side. table: scales of R, G, B,
 * then their shifts, then the coefficients of luma and chroma. */

#define YUV (FV_FLAGS & (FV_FLAG_NV12 | FV_FLAG_YUYV))
#if YUV
#include "gpu/kernels/yuv_common.cl"
#endif

#define COLUMNS (3 * SIDE * SIDE)
#define RUNS ((COLUMNS + 3) / 4)

/* The pixel at (x, y) of the picture at `base`. `plane`: floats from one plane to the next. */
static inline float pixel(global const FV_CELL(0) *base, uint ld, global const FV_CELL(1) *chroma,
                          uint chroma_ld, uint x, uint y, uint ch, uint plane,
                          global const float *table)
{
#if FV_FLAGS & FV_FLAG_PLANAR
    return FV_GET(0, base + (size_t)ch * plane + (size_t)y * ld + x);
#elif YUV
    const int3 rgb = yuv_pixel(base, ld, (global const uchar *)chroma, chroma_ld, x, y,
                               (global const yuv *)(table + 6));
    const uchar value = convert_uchar_sat(ch == 0 ? rgb.x : ch == 1 ? rgb.y : rgb.z);
    return convert_float(value) * table[ch] + table[3 + ch];
#else
    base += (size_t)y * ld;
    base += FV_FLAGS & FV_FLAG_GRAY ? x : FV_FLAGS & FV_FLAG_BGR ? 3 * x + 2 - ch : 3 * x + ch;
    return FV_GET(0, base) * table[ch] + table[3 + ch];
#endif
}

FV_KERNEL void patch(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint stride = dim.s3, pad_x = dim.s4, width = dim.s5, height = dim.s6, pad_y = dim.s7;
    const uint2 me = fv_spread(RUNS);
    if (me.x >= rows || me.y >= RUNS)
        return;
    const uint token = row0 + me.x, c = 4 * me.y, left = COLUMNS - c;
    float out[4] = {0.f, 0.f, 0.f, 0.f};
    if (token >= u.s0) {
        /* Coordinates count from pad_x pixels to the left of the picture and from pad_y pixels
         * above it. */
        const uint y0 = (token - u.s0) / u.s1 * stride, x0 = (token - u.s0) % u.s1 * stride;
        for (uint i = 0; i < min(left, 4u); i++) {
            const uint ch = (c + i) / (SIDE * SIDE), y = y0 + (c + i) / SIDE % SIDE;
            const uint x = x0 + (c + i) % SIDE;
            if (y >= pad_y && y - pad_y < height && x >= pad_x && x - pad_x < width)
                out[i] = pixel(base0 + at0.x, at0.y, base1 + at1.x, at1.y, x - pad_x, y - pad_y, ch,
                               u.s2, (global const float *)table);
        }
    }
    FV_PUT_RUN(2, FV_AT(2, me.x) + c, (float4)(out[0], out[1], out[2], out[3]), left);
}
