/* yuv_line.h: a line of luma and chroma to R, G and B: pairs of pixels in plain loops, which the
 * compiler turns into vectors. */
#ifndef FOVEA_PLATFORM_TMPL_YUV_LINE_H
#define FOVEA_PLATFORM_TMPL_YUV_LINE_H

#include "ops/yuv.h"
#include "platform/cpu/vec/vec.h"

/* One array for each of them. */
typedef struct yuv_bytes {
    uint8_t *red, *green, *blue;
} yuv_bytes;

FV_FN void yuv_pairs(yuv_bytes out, const uint8_t *restrict luma, const uint8_t *restrict chroma,
                     size_t step, size_t pairs, const fv_yuv *t)
{
    uint8_t *restrict red = out.red, *restrict green = out.green, *restrict blue = out.blue;
    const fv_yuv f = *t;
    const int32_t base = (1 << (FV_YUV_BITS - 1)) - f.luma * f.black;
    for (size_t i = 0; i < pairs; i++) {
        const int32_t u = chroma[2 * step * i] - 128, v = chroma[2 * step * i + step] - 128;
        const int32_t r = base + f.red_v * v, b = base + f.blue_u * u;
        const int32_t g = base - f.green_u * u - f.green_v * v;
        const int32_t l0 = f.luma * luma[2 * step * i], l1 = f.luma * luma[2 * step * i + step];
        red[2 * i] = fv_yuv_clip(l0 + r);
        red[2 * i + 1] = fv_yuv_clip(l1 + r);
        green[2 * i] = fv_yuv_clip(l0 + g);
        green[2 * i + 1] = fv_yuv_clip(l1 + g);
        blue[2 * i] = fv_yuv_clip(l0 + b);
        blue[2 * i + 1] = fv_yuv_clip(l1 + b);
    }
}

FV_FN void yuv_one(yuv_bytes out, const fv_yuv_frame *f, const fv_yuv *t, size_t y, size_t x)
{
    uint8_t rgb[3];
    fv_yuv_pixel(rgb, f, t, y, x);
    *out.red = rgb[0];
    *out.green = rgb[1];
    *out.blue = rgb[2];
}

FV_FN yuv_bytes yuv_from(yuv_bytes b, size_t i)
{
    return (yuv_bytes){b.red + i, b.green + i, b.blue + i};
}

/* `count` pixels of line y, from column x on. */
FV_FN void yuv_line(yuv_bytes out, const fv_yuv_frame *f, const fv_yuv *t, size_t y, size_t x,
                    size_t count)
{
    if (count && x % 2) {
        yuv_one(out, f, t, y, x++);
        out = yuv_from(out, 1);
        count--;
    }
    const uint8_t *luma = f->luma + y * f->luma_ld + x * f->step;
    const uint8_t *chroma = f->chroma + (y >> f->down) * f->chroma_ld + x * f->step;
    if (f->step == 1)
        yuv_pairs(out, luma, chroma, 1, count / 2, t);
    else
        yuv_pairs(out, luma, chroma, 2, count / 2, t);
    if (count % 2)
        yuv_one(yuv_from(out, count - 1), f, t, y, x + count - 1);
}

#endif
