/* dot_madd256.h: multiplies 16-bit numbers on AVX2, which adds the products in pairs. AVX2's
 * products of 8-bit numbers saturate, so numbers are widened to 16 bits; rows are widened once,
 * when they are packed. */
#define SPLIT 1
#define INTERLEAVE 2
#define BIAS 0
typedef int16_t number;
#include "platform/cpu/x86/whole.h"

FV_WORD(numbers, columns, (const int8_t *w),
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w)))
FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_madd(sum, x, column))

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    (void)total; /* not needed: no operand has an offset */
    FV_UNROLL
    for (int v = 0; v < FV_ROTATED; v += 2) {
        const __m256i both =
            _mm256_packs_epi32(_mm256_cvtps_epi32(x[v]), _mm256_cvtps_epi32(x[v + 1]));
        _mm256_storeu_si256((__m256i *)(void *)(q + 8 * v), _mm256_permute4x64_epi64(both, 0xd8));
    }
}
