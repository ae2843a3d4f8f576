/* dot_vnni256.h: AVX-VNNI multiplies numbers without a sign, the weight's, by signed ones. */
#define SPLIT 1
#define BIAS 0x80
typedef __m256i sums;
typedef __m256i numbers;

FV_WORD(sums, none, (void), _mm256_setzero_si256())
FV_WORD(numbers, columns, (const int8_t *w), _mm256_loadu_si256((const __m256i *)(const void *)w))

FV_FN numbers steps(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm256_set1_epi32(four);
}

FV_WORD(sums, add, (sums sum, numbers x, numbers column), _mm256_dpbusd_avx_epi32(sum, column, x))

FV_FN void put(int32_t *acc, const sums *sum)
{
    _mm256_storeu_si256((__m256i *)(void *)acc, *sum);
}

#include "platform/cpu/x86/whole256.h"
