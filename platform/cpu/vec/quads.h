/* quads.h: the register tile for 8-bit integers with integer sums; operands.h has the one for
 * floats. In each product one operand is spread across the lanes, the other is the same for all of
 * them.
 *
 *   FV_STEPS       adjacent steps of k in a lane: as many as an instruction multiplies
 *   fv_number      type of a level's operands: 8 bits, widened to 16 bits, or floats, whose sums
 *                  below 2^24 are exact
 *   FV_QUERY_OFF   offset of signed numbers across the lanes, if instructions need unsigned ones
 *   FV_WEIGHT_OFF  offset of numbers between 0 and 255, if instructions need signed ones
 *
 *   lanes   step FV_STEPS g + i of column j is x[(g ld + j) FV_STEPS + i] (ld columns)
 *   rows    of the other operand: step k of row i is x[i ld + k]
 *   depth   of the other operand, in the format of lanes; levels with FV_BY_DEPTH use it for rows
 *
 * To cancel the offset, the sums of a row begin with -FV_QUERY_OFF or -FV_WEIGHT_OFF times the sum
 * of the row's numbers. */
#ifndef FOVEA_PLATFORM_VEC_QUADS_H
#define FOVEA_PLATFORM_VEC_QUADS_H

#include "platform/cpu/vec/tile.h"

/* What each level defines: fv_whole, FV_W integer sums; fv_lanes_load(); fv_whole_dot(sum, lanes,
 * all), which adds the products of FV_STEPS steps to the sum; and fv_put_weights(x, p), which
 * rounds FV_STEPS steps of FV_W lanes, between 0 and 255, to numbers. */
#if defined FV_ISA_NEON_SDOT || defined FV_ISA_NEON_I8MM
#include "platform/cpu/arm/quads_neon.h"
#elif defined FV_ISA_AVX512_VNNI || defined FV_ISA_AVX_VNNI
#include "platform/cpu/x86/dot.h"
#define FV_STEPS 4
#define FV_QUERY_OFF 128
#define FV_WEIGHT_OFF 0
typedef int8_t fv_number;
#elif defined FV_ISA_AVX512 || defined FV_ISA_AVX2
#include "platform/cpu/x86/dot.h"
#define FV_STEPS 2
#define FV_QUERY_OFF 0
#define FV_WEIGHT_OFF 0
typedef int16_t fv_number;
#else
#define FV_STEPS 1
#define FV_QUERY_OFF 0
#define FV_WEIGHT_OFF 0
typedef float fv_number;
typedef fv_v fv_whole;

FV_WORD(fv_whole, fv_whole_set, (int32_t x), fv_set((float)x))
FV_WORD(fv_v, fv_of_whole, (fv_whole x), x)

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    fv_store(x, fv_round(p[0]));
}
#endif

#if defined FV_ISA_AVX512_VNNI
FV_WORD(fv_whole, fv_whole_dot, (fv_whole sum, fv_steps lanes, fv_steps all),
        fv_dpbusd(sum, lanes, all))

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i low = _mm512_packus_epi32(_mm512_cvtps_epi32(p[0]), _mm512_cvtps_epi32(p[1]));
    const __m512i high = _mm512_packus_epi32(_mm512_cvtps_epi32(p[2]), _mm512_cvtps_epi32(p[3]));
    _mm512_storeu_si512(x, _mm512_shuffle_epi8(_mm512_packus_epi16(low, high), order));
}
#elif defined FV_ISA_AVX512
FV_WORD(fv_whole, fv_whole_dot, (fv_whole sum, fv_steps lanes, fv_steps all),
        fv_madd(sum, lanes, all))

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    const __m512i odd = _mm512_slli_epi32(_mm512_cvtps_epi32(p[1]), 16);
    _mm512_storeu_si512(x, _mm512_or_si512(_mm512_cvtps_epi32(p[0]), odd));
}
#elif defined FV_ISA_AVX_VNNI
FV_WORD(fv_whole, fv_whole_dot, (fv_whole sum, fv_steps lanes, fv_steps all),
        fv_dpbusd(sum, lanes, all))

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m256i low = _mm256_packus_epi32(_mm256_cvtps_epi32(p[0]), _mm256_cvtps_epi32(p[1]));
    const __m256i high = _mm256_packus_epi32(_mm256_cvtps_epi32(p[2]), _mm256_cvtps_epi32(p[3]));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)(void *)x, bytes);
}
#elif defined FV_ISA_AVX2
FV_WORD(fv_whole, fv_whole_dot, (fv_whole sum, fv_steps lanes, fv_steps all),
        fv_madd(sum, lanes, all))

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    const __m256i odd = _mm256_slli_epi32(_mm256_cvtps_epi32(p[1]), 16);
    _mm256_storeu_si256((__m256i *)(void *)x, _mm256_or_si256(_mm256_cvtps_epi32(p[0]), odd));
}
#endif

#ifndef FV_BY_DEPTH
#define FV_BY_DEPTH 0
#endif

/* Rate of these products divided by that of float products, for estimates of time. */
enum { FV_WHOLE_RATE = FV_STEPS < 4 ? FV_STEPS : 4 };

/* Copies FV_STEPS numbers and adds an offset to each. */
FV_FN void fv_put_steps(fv_number *x, const int8_t *number, int off)
{
    fv_number steps[FV_STEPS];
    for (int i = 0; i < FV_STEPS; i++)
        steps[i] = (fv_number)(number[i] + off);
    memcpy(x, steps, sizeof steps);
}

#if FV_STEPS == 1
/* acc[i][j] += the sum over groups of steps of a's row i by b's column j. `am`: stride in a between
 * rows of the tile; FV_STEPS if a is packed by depth. `ak`: stride between groups; FV_STEPS if a is
 * packed by rows. */
FV_FN void fv_whole_tile_add(fv_whole acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_number *a,
                             size_t am, size_t ak, const fv_number *b, size_t ldb, size_t groups)
{
    fv_tile_add_cols(acc, vecs, a, am, ak, b, ldb, groups);
}
#elif !FV_BY_DEPTH
FV_FN void fv_whole_tile_add(fv_whole acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_number *a,
                             size_t am, size_t ak, const fv_number *b, size_t ldb, size_t groups)
{
    for (size_t g = 0; g < groups; g++) {
        fv_steps col[FV_TILE_N];
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            col[j] = fv_lanes_load(b + (g * ldb + (size_t)j * FV_W) * FV_STEPS);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            int32_t group;
            memcpy(&group, a + i * am + g * ak, sizeof group);
            const fv_steps row = fv_steps_set(group);
            FV_UNROLL
            for (int j = 0; j < vecs; j++)
                acc[i][j] = fv_whole_dot(acc[i][j], col[j], row);
        }
    }
}
#endif

#endif
