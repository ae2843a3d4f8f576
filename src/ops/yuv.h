/* yuv.h: frames of luma and chroma: locates their pixels in memory, and converts them to R, G, B.
 *
 * All arithmetic is in integers, so that every device computes the same bytes:
 *
 *   l = luma (Y - black) + 2^15, u = U - 128, v = V - 128
 *   R = clip8((l + red_v v) >> 16)
 *   G = clip8((l - green_u u - green_v v) >> 16)
 *   B = clip8((l + blue_u u) >> 16)
 *
 * with the coefficients of the matrix and range in 16 fractional bits. U and V are those of the
 * nearest sample, as in libyuv: pixel (x, y) uses pair x / 2; in NV12, the pair is in
 * chroma line y / 2. An odd last column or line has its own pairs.
 */
#ifndef FOVEA_SRC_YUV_H
#define FOVEA_SRC_YUV_H

#include <fovea/plans.h>

#include "ops/kernel.h"

#define FV_YUV_BITS 16

enum { FV_YUVS = FOVEA_YUV_2020_FULL + 1 };

typedef struct fv_yuv {
    int32_t black, luma, red_v, green_u, green_v, blue_u;
} fv_yuv;

extern const fv_yuv fv_yuv_table[FV_YUVS]; /* indexed by fovea_yuv_matrix */

/* A frame. Line y has its luma at luma + y * luma_ld, with a pixel stride of `step` bytes. Its U
 * and V pairs are at chroma + (y >> down) * chroma_ld, with a stride of 2 * step bytes; V is `step`
 * bytes after U. */
typedef struct fv_yuv_frame {
    const uint8_t *luma, *chroma;
    size_t luma_ld, chroma_ld, step;
    uint32_t down;
} fv_yuv_frame;

/* Returns the frame of a PATCH or RESIZE_X step with these flags and operands. */
static inline fv_yuv_frame fv_yuv_frame_of(uint32_t flags, const void *in, size_t in_ld,
                                           const void *chroma, size_t chroma_ld)
{
    const uint8_t *luma = in;
    if (flags & FV_FLAG_NV12)
        return (fv_yuv_frame){luma, chroma, in_ld, chroma_ld, 1, 1};
    return (fv_yuv_frame){luma, luma + 1, in_ld, in_ld, 2, 0};
}

static inline uint8_t fv_yuv_clip(int32_t v)
{
    v >>= FV_YUV_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Computes R, G, B from one luma and chroma. */
static inline void fv_yuv_rgb(uint8_t rgb[3], const fv_yuv *t, uint8_t y, uint8_t u8, uint8_t v8)
{
    const int32_t u = u8 - 128, v = v8 - 128;
    const int32_t l = t->luma * (y - t->black) + (1 << (FV_YUV_BITS - 1));
    rgb[0] = fv_yuv_clip(l + t->red_v * v);
    rgb[1] = fv_yuv_clip(l - t->green_u * u - t->green_v * v);
    rgb[2] = fv_yuv_clip(l + t->blue_u * u);
}

/* Returns the value of R, G and B, which are equal, for luma without chroma. */
static inline uint8_t fv_yuv_grey(const fv_yuv *t, uint8_t y)
{
    return fv_yuv_clip(t->luma * (y - t->black) + (1 << (FV_YUV_BITS - 1)));
}

/* Computes R, G, B of the pixel in column x of line y. */
static inline void fv_yuv_pixel(uint8_t rgb[3], const fv_yuv_frame *f, const fv_yuv *t, size_t y,
                                size_t x)
{
    const uint8_t *pair = f->chroma + (y >> f->down) * f->chroma_ld + x / 2 * 2 * f->step;
    fv_yuv_rgb(rgb, t, f->luma[y * f->luma_ld + x * f->step], pair[0], pair[f->step]);
}

#endif
