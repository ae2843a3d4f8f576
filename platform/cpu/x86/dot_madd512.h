/* dot_madd512.h: multiplies 16-bit numbers on AVX-512 without VNNI, which adds the products in
 * pairs. Numbers are widened to 16 bits; rows are widened once, when they are packed. */
#define SPLIT 1
#define INTERLEAVE 2
#define BIAS 0
typedef int16_t number;
#include "platform/cpu/x86/whole.h"

FV_WORD(numbers, columns, (const int8_t *w),
        _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)w)))
FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_madd(sum, x, column))

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    (void)total; /* not needed: no operand has an offset */
    FV_UNROLL
    for (int v = 0; v < FV_ROTATED; v++)
        _mm256_storeu_si256((__m256i *)(void *)(q + 16 * v),
                            _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x[v])));
}
