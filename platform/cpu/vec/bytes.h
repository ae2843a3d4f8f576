/* bytes.h: quantises rows of floats to 8-bit integers in vec.h's vector functions, with the same
 * results as ops/quantise.h to the bit. */
#ifndef FOVEA_PLATFORM_VEC_BYTES_H
#define FOVEA_PLATFORM_VEC_BYTES_H

#include <math.h>

#include "ops/quantise.h"
#include "platform/cpu/vec/vec.h"

/* Stores the first n lanes of x, which are between -127 and 127, as the nearest integers. */
FV_FN void fv_store_i8(int8_t *p, fv_v x, int n)
{
#if defined FV_ISA_C || defined FV_ISA_RVV
    float lane[FV_W];
    fv_store(lane, fv_round(x));
    for (int i = 0; i < n; i++)
        p[i] = (int8_t)lane[i];
#elif FV_W == 16
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x));
    if (n == FV_W)
        _mm_storeu_si128((__m128i *)(void *)p, bytes);
    else
        _mm_mask_storeu_epi8(p, fv_mask_n(n), bytes);
#elif FV_W == 8
    const __m256i whole = _mm256_cvtps_epi32(x);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    const int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(words, words));
    if (n == FV_W)
        memcpy(p, &bytes, sizeof bytes);
    else
        memcpy(p, &bytes, (size_t)n);
#else
    const int16x4_t words = vmovn_s32(vcvtnq_s32_f32(x));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
    if (n == FV_W)
        memcpy(p, &four, sizeof four);
    else
        memcpy(p, &four, (size_t)n);
#endif
}

/* Returns the largest absolute value of n floats; NaN if any is infinite or NaN. */
FV_FN float fv_i8_top(const float *row, size_t n)
{
    fv_v top = fv_set(0.f), poison = fv_set(0.f);
    for (size_t i = 0; i < n; i += FV_W) {
        const fv_v x = fv_load_n(row + i, fv_lanes(n - i));
        top = fv_max(top, fv_abs(x));
        poison = fv_fma(x, fv_set(0.f), poison);
    }
    return fv_hsum(poison) == 0 ? fv_hmax(top) : NAN;
}

/* Quantises n floats: float times `factor`, rounded, or zeros if `factor` is 0. Returns the sum of
 * the numbers. */
FV_FN int32_t fv_i8_numbers(int8_t *q, const float *row, size_t n, float factor)
{
    fv_v all = fv_set(0.f); /* exact: the sum of integers, below 2^24 */
    if (!(factor > 0))
        memset(q, 0, n);
    for (size_t i = 0; factor > 0 && i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v x = fv_round(fv_mul(fv_load_n(row + i, lanes), fv_set(factor)));
        fv_store_i8(q + i, x, lanes);
        all = fv_add(all, x);
    }
    return (int32_t)fv_hsum(all);
}

/* Quantises n floats; returns their scale, and the sum of the numbers in *sum. */
FV_FN float fv_i8_row(int8_t *q, int32_t *sum, const float *row, size_t n)
{
    float factor;
    const float scale = fv_int8_scale(&factor, fv_i8_top(row, n));
    *sum = fv_i8_numbers(q, row, n, factor);
    return scale;
}

#endif
