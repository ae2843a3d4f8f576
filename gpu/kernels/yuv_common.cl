/* yuv_common.cl: a pixel of luma and chroma to R, G, B, in whole numbers: src/ops/yuv.h, bit for
 * bit. The coefficients, an fv_yuv, are in the table of the step. */

/* Bytes from pixel to pixel, and from U to V. */
#define YUV_STEP (FV_FLAGS & FV_FLAG_NV12 ? 1 : 2)

typedef struct yuv {
    int black, luma, red_v, green_u, green_v, blue_u;
} yuv;

/* R, G, B before they are cut to 0 .. 255. */
static inline int3 yuv_pixel(global const uchar *in, uint ld, global const uchar *chroma,
                             uint chroma_ld, uint x, uint y, global const yuv *t)
{
#if FV_FLAGS & FV_FLAG_NV12
    global const uchar *pair = chroma + (size_t)(y / 2) * chroma_ld + x / 2 * 2;
#else
    global const uchar *pair = in + (size_t)y * ld + x / 2 * 4 + 1;
#endif
    const int u = pair[0] - 128, v = pair[YUV_STEP] - 128;
    const int l = t->luma * (in[(size_t)y * ld + x * YUV_STEP] - t->black) + (1 << 15);
    return (int3)(l + t->red_v * v, l - t->green_u * u - t->green_v * v, l + t->blue_u * u) >> 16;
}
