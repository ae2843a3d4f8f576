/* dot_vnni512.h: multiplies 8-bit numbers with AVX-512 VNNI, whose instruction takes an unsigned
 * operand, here the weight, and a signed one. */
#define SPLIT 1
#define BIAS 0x80
#define PIXELS
typedef int8_t number;
#include "platform/cpu/x86/whole.h"

FV_WORD(numbers, columns, (const int8_t *w), _mm512_loadu_si512(w))
FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_dpbusd(sum, column, x))

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(x[0]), _mm512_cvtps_epi32(x[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(x[2]), _mm512_cvtps_epi32(x[3]));
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    _mm512_storeu_si512(q, bytes);
    *total = add(*total, bytes, _mm512_set1_epi8(1));
}
