/* yuv_line.h: converts a line of luma and chroma to R, G and B. Plain loops over pairs of pixels,
 * which the compiler vectorises. */
#ifndef FOVEA_PLATFORM_TMPL_YUV_LINE_H
#define FOVEA_PLATFORM_TMPL_YUV_LINE_H

#include "ops/yuv.h"
#include "platform/cpu/vec/vec.h"

/* Separate arrays for R, G and B. */
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

/* Converts `count` pixels of line y, from column x on. */
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

/* ---- interleaved results: R, G, B and 0 for each pixel ---- */

/* Interleaves three rows of bytes to R, G, B and 0 for each pixel. */
FV_FN void yuv_interleave(uint8_t *restrict out, const uint8_t *restrict red,
                          const uint8_t *restrict green, const uint8_t *restrict blue, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t all = red[i] | (uint32_t)green[i] << 8 | (uint32_t)blue[i] << 16;
        const uint8_t four[4] = {(uint8_t)all, (uint8_t)(all >> 8), (uint8_t)(all >> 16), 0};
        memcpy(out + 4 * i, four, 4);
    }
}

#if defined FV_ISA_AVX2 || defined FV_ISA_AVX512
enum { YUV_AT_ONCE = 8 };

FV_FN __m256i yuv_lanes(__m128i bytes, __m128i which)
{
    return _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, which));
}

FV_FN __m256i yuv_cut(__m256i x)
{
    const __m256i most = _mm256_set1_epi32(255);
    x = _mm256_srai_epi32(x, FV_YUV_BITS);
    return _mm256_min_epi32(_mm256_max_epi32(x, _mm256_setzero_si256()), most);
}

/* Converts eight pixels, of which the first must have an even column. */
FV_FN void yuv_eight(uint8_t *out, const uint8_t *luma, const uint8_t *chroma, size_t step,
                     const fv_yuv *t)
{
    const __m128i *const from = (const __m128i *)luma, *const pairs = (const __m128i *)chroma;
    const __m128i bytes = step == 1
                              ? _mm_unpacklo_epi64(_mm_loadl_epi64(from), _mm_loadl_epi64(pairs))
                              : _mm_loadu_si128(from);
    const __m128i ys = step == 1 ? _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0)
                                 : _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i us = step == 1
                           ? _mm_setr_epi8(8, 8, 10, 10, 12, 12, 14, 14, 0, 0, 0, 0, 0, 0, 0, 0)
                           : _mm_setr_epi8(1, 1, 5, 5, 9, 9, 13, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i vs = step == 1
                           ? _mm_setr_epi8(9, 9, 11, 11, 13, 13, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0)
                           : _mm_setr_epi8(3, 3, 7, 7, 11, 11, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i middle = _mm256_set1_epi32(128);
    const __m256i u = _mm256_sub_epi32(yuv_lanes(bytes, us), middle);
    const __m256i v = _mm256_sub_epi32(yuv_lanes(bytes, vs), middle);
    const int32_t base = (1 << (FV_YUV_BITS - 1)) - t->luma * t->black;
    const __m256i l =
        _mm256_add_epi32(_mm256_mullo_epi32(yuv_lanes(bytes, ys), _mm256_set1_epi32(t->luma)),
                         _mm256_set1_epi32(base));
    const __m256i red = _mm256_mullo_epi32(v, _mm256_set1_epi32(t->red_v));
    const __m256i green = _mm256_add_epi32(_mm256_mullo_epi32(u, _mm256_set1_epi32(t->green_u)),
                                           _mm256_mullo_epi32(v, _mm256_set1_epi32(t->green_v)));
    const __m256i blue = _mm256_mullo_epi32(u, _mm256_set1_epi32(t->blue_u));
    const __m256i r = yuv_cut(_mm256_add_epi32(l, red));
    const __m256i g = yuv_cut(_mm256_sub_epi32(l, green));
    const __m256i b = yuv_cut(_mm256_add_epi32(l, blue));
    const __m256i both = _mm256_or_si256(r, _mm256_slli_epi32(g, 8));
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(both, _mm256_slli_epi32(b, 16)));
}
#else
enum { YUV_AT_ONCE = 0 };

FV_FN void yuv_eight(uint8_t *out, const uint8_t *luma, const uint8_t *chroma, size_t step,
                     const fv_yuv *t)
{
    (void)out, (void)luma, (void)chroma, (void)step, (void)t;
}
#endif

FV_FN void yuv_one_of_four(uint8_t *out, const fv_yuv_frame *f, const fv_yuv *t, size_t y, size_t x)
{
    out[3] = 0;
    fv_yuv_pixel(out, f, t, y, x);
}

/* Converts `count` pixels of line y, from column x on, to R, G, B and 0 each. The buffer has 3 *
 * count bytes. */
FV_FN void yuv_line_of_fours(uint8_t *out, uint8_t *buffer, const fv_yuv_frame *f, const fv_yuv *t,
                             size_t y, size_t x, size_t count)
{
    if (!YUV_AT_ONCE) {
        uint8_t *green = buffer + count, *blue = green + count;
        yuv_line((yuv_bytes){buffer, green, blue}, f, t, y, x, count);
        yuv_interleave(out, buffer, green, blue, count);
        return;
    }
    const uint8_t *luma = f->luma + y * f->luma_ld;
    const uint8_t *chroma = f->chroma + (y >> f->down) * f->chroma_ld;
    const size_t end = x + count;
    if (x % 2 && x < end) {
        yuv_one_of_four(out, f, t, y, x++);
        out += 4;
    }
    if (f->step == 1)
        for (; x + YUV_AT_ONCE <= end; x += YUV_AT_ONCE, out += 4 * YUV_AT_ONCE)
            yuv_eight(out, luma + x, chroma + x, 1, t);
    else
        for (; x + YUV_AT_ONCE <= end; x += YUV_AT_ONCE, out += 4 * YUV_AT_ONCE)
            yuv_eight(out, luma + 2 * x, chroma, 2, t);
    for (; x < end; x++, out += 4)
        yuv_one_of_four(out, f, t, y, x);
}

#endif
