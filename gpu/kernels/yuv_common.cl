/* yuv_common.cl: converts a pixel of luma and chroma to R, G, B in integers, as src/ops/yuv.h does,
 * bit for bit. The coefficients, an fv_yuv, are in the step's table. */

/* Bytes from one pixel to the next, and from U to V. */
#define YUV_STEP (FV_FLAGS & FV_FLAG_NV12 ? 1 : 2)

typedef struct yuv {
    int black, luma, red_v, green_u, green_v, blue_u;
} yuv;

/* R, G, B before they are clamped to 0 .. 255. */
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
