/* dot_vnni512.h: AVX-512 VNNI multiplies numbers without a sign, the weight's, by signed ones. */
#include "platform/cpu/x86/dot.h"

#define SPLIT 1
#define BIAS 0x80
typedef int8_t number;
typedef __m512i sums;
typedef __m512i numbers;

FV_WORD(sums, none, (void), fv_zero_sum())
FV_WORD(numbers, columns, (const int8_t *w), _mm512_loadu_si512(w))

FV_FN numbers steps(const number *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return _mm512_set1_epi32(four);
}

FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_dpbusd(sum, column, x))

FV_FN void put(int32_t *acc, const sums *sum)
{
    _mm512_storeu_si512(acc, *sum);
}

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(x[0]), _mm512_cvtps_epi32(x[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(x[2]), _mm512_cvtps_epi32(x[3]));
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    _mm512_storeu_si512(q, bytes);
    *total = add(*total, bytes, _mm512_set1_epi8(1));
}

#include "platform/cpu/x86/whole512.h"
