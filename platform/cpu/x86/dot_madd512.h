/* dot_madd512.h: AVX-512 without VNNI: 16-bit products, added in pairs, of widened numbers. Rows
 * are widened once, when they are packed. */
#include "platform/cpu/x86/dot.h"

#define SPLIT 1
#define BESIDE 2
#define BIAS 0
typedef int16_t number;
typedef __m512i sums;
typedef __m512i numbers;

FV_WORD(sums, none, (void), fv_zero_sum())
FV_WORD(numbers, columns, (const int8_t *w),
        _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)w)))

FV_FN numbers steps(const number *a)
{
    int32_t two;
    memcpy(&two, a, sizeof two);
    return _mm512_set1_epi32(two);
}

FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_madd(sum, x, column))

FV_FN void put(int32_t *acc, const sums *sum)
{
    _mm512_storeu_si512(acc, *sum);
}

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    (void)total; /* nothing has a bias */
    FV_UNROLL
    for (int v = 0; v < FV_ROTATED; v++)
        _mm256_storeu_si256((__m256i *)(void *)(q + 16 * v),
                            _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x[v])));
}

#include "platform/cpu/x86/whole512.h"
