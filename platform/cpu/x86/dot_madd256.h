/* dot_madd256.h: AVX2 has 16-bit products, added in pairs, of widened numbers; those of 8 bits
 * saturate. The sums of two halves of the steps lie side by side. */
#define SPLIT 2
#define BIAS 0
typedef __m256i sums;
typedef __m256i numbers;

FV_WORD(sums, none, (void), _mm256_setzero_si256())
FV_WORD(numbers, columns, (const int8_t *w),
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w)))

FV_FN numbers steps(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
}

FV_FN sums add(sums sum, numbers x, numbers column)
{
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, column));
    __asm__("" : "+x"(sum)); /* GCC would do all products first, and run out of registers */
    return sum;
}

FV_FN void put(int32_t *acc, const sums *sum)
{
    const __m256i pairs = _mm256_hadd_epi32(sum[0], sum[1]); /* columns 0 1 4 5 2 3 6 7 */
    _mm256_storeu_si256((__m256i *)(void *)acc, _mm256_permute4x64_epi64(pairs, 0xd8));
}

#include "platform/cpu/x86/whole256.h"
