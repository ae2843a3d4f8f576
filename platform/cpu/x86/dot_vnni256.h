/* dot_vnni256.h: multiplies 8-bit numbers with AVX-VNNI, whose instruction takes an unsigned
 * operand, here the weight, and a signed one. */
#define SPLIT 1
#define BIAS 0x80
#define PIXELS
typedef int8_t number;
#include "platform/cpu/x86/whole.h"

FV_WORD(numbers, columns, (const int8_t *w), _mm256_loadu_si256((const __m256i *)(const void *)w))
FV_WORD(sums, add, (sums sum, numbers x, numbers column), fv_dpbusd(sum, column, x))

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    FV_UNROLL
    for (int v = 0; v < FV_ROTATED; v += 4) {
        const __m256i low =
            _mm256_packs_epi32(_mm256_cvtps_epi32(x[v]), _mm256_cvtps_epi32(x[v + 1]));
        const __m256i high =
            _mm256_packs_epi32(_mm256_cvtps_epi32(x[v + 2]), _mm256_cvtps_epi32(x[v + 3]));
        const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        _mm256_storeu_si256((__m256i *)(void *)(q + 8 * v), bytes);
        *total = add(*total, bytes, _mm256_set1_epi8(1));
    }
}
