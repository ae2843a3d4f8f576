/* dot_madd512.h: AVX-512 without VNNI: 16-bit products, added in pairs, of widened numbers. The
 * sums of two halves of the steps lie side by side. */
#define SPLIT 2
#define BIAS 0
typedef __m512i sums;
typedef __m512i numbers;

FV_WORD(sums, none, (void), _mm512_setzero_si512())
FV_WORD(numbers, columns, (const int8_t *w),
        _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)w)))

FV_FN numbers steps(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm512_cvtepi8_epi16(_mm256_set1_epi32(four));
}

FV_FN sums add(sums sum, numbers x, numbers column)
{
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(x, column));
    __asm__("" : "+v"(sum)); /* GCC would do all products first, and run out of registers */
    return sum;
}

FV_FN void put(int32_t *acc, const sums *sum)
{
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    _mm512_storeu_si512(acc, _mm512_add_epi32(_mm512_permutex2var_epi32(sum[0], even, sum[1]),
                                              _mm512_permutex2var_epi32(sum[0], odd, sum[1])));
}

#include "platform/cpu/x86/whole512.h"
