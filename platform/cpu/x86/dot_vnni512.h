/* dot_vnni512.h: AVX-512 VNNI multiplies numbers without a sign, the weight's, by signed ones. */
#define SPLIT 1
#define BIAS 0x80
typedef __m512i sums;
typedef __m512i numbers;

FV_WORD(sums, none, (void), _mm512_setzero_si512())
FV_WORD(numbers, columns, (const int8_t *w), _mm512_loadu_si512(w))

FV_FN numbers steps(const int8_t *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm512_set1_epi32(four);
}

FV_WORD(sums, add, (sums sum, numbers x, numbers column), _mm512_dpbusd_epi32(sum, column, x))

FV_FN void put(int32_t *acc, const sums *sum)
{
    _mm512_storeu_si512(acc, *sum);
}

#include "platform/cpu/x86/whole512.h"
