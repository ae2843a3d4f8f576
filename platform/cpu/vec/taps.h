/* taps.h: weighted sums of bytes as integers, over a vector of FV_W of them. Weights have 16 bits
 * and come in pairs, because processors multiply and add pairs in one instruction; or they have 32
 * bits.
 *
 *   fv_sums                        FV_W sums of 32 bits
 *   fv_sums_set(x)                 all of them x
 *   fv_sums_pairs(s, p, w)         s[i] += p[2 i] w[0] + p[2 i + 1] w[1]
 *   fv_sums_wide(s, p, w)          s[i] += p[i] w
 *   fv_sums_bytes(out, s, bits)    out[i] = clip8(s[i] >> bits)
 *   fv_pair_of(out, p, step)       out[2 i] = p[i], out[2 i + 1] = p[step + i], i < 3, of bytes;
 *                                  step is 3 or 4; reads 8 bytes, writes 8 numbers
 *   fv_lane_floats(out, p, scale)  4 bytes as floats, times `scale`
 *   fv_lane_wide(out, p)           4 bytes as integers
 *   fv_block                       4 FV_W sums of neighbours in a row of bytes:
 *   fv_block_set(x)                all of them x
 *   fv_block_rows(s, a, b, w)      s[i] += a[i] w[0] + b[i] w[1]
 *   fv_block_bytes(out, s, bits)   out[i] = clip8(s[i] >> bits)
 */
#ifndef FOVEA_PLATFORM_VEC_TAPS_H
#define FOVEA_PLATFORM_VEC_TAPS_H

#include "platform/cpu/vec/vec.h"

enum { FV_BLOCK = 4 * FV_W };

#define FV_TAPS_BLOCK                                                                              \
    typedef struct {                                                                               \
        fv_sums v[4];                                                                              \
    } fv_block;                                                                                    \
    FV_FN fv_block fv_block_set(int32_t x)                                                         \
    {                                                                                              \
        const fv_sums s = fv_sums_set(x);                                                          \
        return (fv_block){{s, s, s, s}};                                                           \
    }

#if defined FV_ISA_AVX2 || defined FV_ISA_AVX512

FV_FN int32_t fv_pair_bits(const int16_t *w)
{
    int32_t bits;
    memcpy(&bits, w, sizeof bits);
    return bits;
}

FV_FN void fv_pair_of(int16_t *out, const uint8_t *p, size_t step)
{
    const __m128i three = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    const __m128i four = _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, -1, -1, -1, -1);
    const __m128i both = _mm_loadl_epi64((const __m128i *)p);
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(both, step == 3 ? three : four));
}

FV_FN __m128i fv_four_bytes(const uint8_t *p)
{
    int32_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bits));
}

FV_FN void fv_lane_floats(float *out, const uint8_t *p, float scale)
{
    _mm_storeu_ps(out, _mm_mul_ps(_mm_cvtepi32_ps(fv_four_bytes(p)), _mm_set1_ps(scale)));
}

FV_FN void fv_lane_wide(int32_t *out, const uint8_t *p)
{
    _mm_storeu_si128((__m128i *)out, fv_four_bytes(p));
}

#if defined FV_ISA_AVX512
typedef __m512i fv_sums;
FV_WORD(fv_sums, fv_sums_set, (int32_t x), _mm512_set1_epi32(x))
FV_TAPS_BLOCK

FV_FN fv_sums fv_sums_pairs(fv_sums s, const int16_t *p, const int16_t *w)
{
    const __m512i x = _mm512_loadu_si512(p);
    return _mm512_add_epi32(s, _mm512_madd_epi16(x, _mm512_set1_epi32(fv_pair_bits(w))));
}

FV_FN fv_sums fv_sums_wide(fv_sums s, const int32_t *p, int32_t w)
{
    const __m512i x = _mm512_loadu_si512(p);
    return _mm512_add_epi32(s, _mm512_mullo_epi32(x, _mm512_set1_epi32(w)));
}

FV_FN void fv_sums_bytes(uint8_t *out, fv_sums s, uint32_t bits)
{
    const __m512i x = _mm512_max_epi32(_mm512_sra_epi32(s, _mm_cvtsi32_si128((int32_t)bits)),
                                       _mm512_setzero_si512());
    _mm_storeu_si128((__m128i *)out, _mm512_cvtusepi32_epi8(x));
}

FV_FN fv_block fv_block_rows(fv_block s, const uint8_t *a, const uint8_t *b, const int16_t *w)
{
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
    const __m512i low = _mm512_unpacklo_epi8(x, y), high = _mm512_unpackhi_epi8(x, y);
    const __m512i none = _mm512_setzero_si512(), pair = _mm512_set1_epi32(fv_pair_bits(w));
    const __m512i two[4] = {_mm512_unpacklo_epi8(low, none), _mm512_unpackhi_epi8(low, none),
                            _mm512_unpacklo_epi8(high, none), _mm512_unpackhi_epi8(high, none)};
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        s.v[i] = _mm512_add_epi32(s.v[i], _mm512_madd_epi16(two[i], pair));
    return s;
}

FV_FN void fv_block_bytes(uint8_t *out, const fv_block *s, uint32_t bits)
{
    const __m128i by = _mm_cvtsi32_si128((int32_t)bits);
    const __m512i low =
        _mm512_packs_epi32(_mm512_sra_epi32(s->v[0], by), _mm512_sra_epi32(s->v[1], by));
    const __m512i high =
        _mm512_packs_epi32(_mm512_sra_epi32(s->v[2], by), _mm512_sra_epi32(s->v[3], by));
    _mm512_storeu_si512(out, _mm512_packus_epi16(low, high));
}
#else
typedef __m256i fv_sums;
FV_WORD(fv_sums, fv_sums_set, (int32_t x), _mm256_set1_epi32(x))
FV_TAPS_BLOCK

FV_FN fv_sums fv_sums_pairs(fv_sums s, const int16_t *p, const int16_t *w)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    return _mm256_add_epi32(s, _mm256_madd_epi16(x, _mm256_set1_epi32(fv_pair_bits(w))));
}

FV_FN fv_sums fv_sums_wide(fv_sums s, const int32_t *p, int32_t w)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    return _mm256_add_epi32(s, _mm256_mullo_epi32(x, _mm256_set1_epi32(w)));
}

FV_FN void fv_sums_bytes(uint8_t *out, fv_sums s, uint32_t bits)
{
    const __m256i x = _mm256_sra_epi32(s, _mm_cvtsi32_si128((int32_t)bits));
    const __m128i two = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(two, two));
}

FV_FN fv_block fv_block_rows(fv_block s, const uint8_t *a, const uint8_t *b, const int16_t *w)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)a);
    const __m256i y = _mm256_loadu_si256((const __m256i *)b);
    const __m256i low = _mm256_unpacklo_epi8(x, y), high = _mm256_unpackhi_epi8(x, y);
    const __m256i none = _mm256_setzero_si256(), pair = _mm256_set1_epi32(fv_pair_bits(w));
    const __m256i two[4] = {_mm256_unpacklo_epi8(low, none), _mm256_unpackhi_epi8(low, none),
                            _mm256_unpacklo_epi8(high, none), _mm256_unpackhi_epi8(high, none)};
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        s.v[i] = _mm256_add_epi32(s.v[i], _mm256_madd_epi16(two[i], pair));
    return s;
}

FV_FN void fv_block_bytes(uint8_t *out, const fv_block *s, uint32_t bits)
{
    const __m128i by = _mm_cvtsi32_si128((int32_t)bits);
    const __m256i low =
        _mm256_packs_epi32(_mm256_sra_epi32(s->v[0], by), _mm256_sra_epi32(s->v[1], by));
    const __m256i high =
        _mm256_packs_epi32(_mm256_sra_epi32(s->v[2], by), _mm256_sra_epi32(s->v[3], by));
    _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi16(low, high));
}
#endif

#else /* four sums */

FV_FN void fv_lane_floats(float *out, const uint8_t *p, float scale)
{
    for (int i = 0; i < 4; i++)
        out[i] = (float)p[i] * scale;
}

FV_FN void fv_lane_wide(int32_t *out, const uint8_t *p)
{
    for (int i = 0; i < 4; i++)
        out[i] = p[i];
}

typedef int32_t fv_sums __attribute__((vector_size(16)));
FV_WORD(fv_sums, fv_sums_set, (int32_t x), (fv_sums){x, x, x, x})
FV_TAPS_BLOCK

FV_FN fv_sums fv_sums_load(const void *p)
{
    fv_sums x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Lanes without a tap hold arbitrary values, so their sums may overflow; the unsigned type makes
 * that wrap around. They are not stored. */
typedef uint32_t fv_wrapping __attribute__((vector_size(16)));
FV_FN fv_sums fv_sums_plus(fv_sums a, fv_sums b)
{
    return (fv_sums)((fv_wrapping)a + (fv_wrapping)b);
}

FV_FN fv_sums fv_sums_wide(fv_sums s, const int32_t *p, int32_t w)
{
    return fv_sums_plus(s, (fv_sums)((fv_wrapping)fv_sums_load(p) * (uint32_t)w));
}

#if defined __SSE2__
#include <emmintrin.h>

FV_FN void fv_pair_of(int16_t *out, const uint8_t *p, size_t step)
{
    const __m128i x = _mm_loadl_epi64((const __m128i *)p);
    const __m128i next = step == 3 ? _mm_srli_si128(x, 3) : _mm_srli_si128(x, 4);
    const __m128i both = _mm_unpacklo_epi8(x, next);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi8(both, _mm_setzero_si128()));
}

FV_FN void fv_sums_bytes(uint8_t *out, fv_sums s, uint32_t bits)
{
    const __m128i two = _mm_packs_epi32((__m128i)(s >> (int32_t)bits), _mm_setzero_si128());
    const int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(two, two));
    memcpy(out, &four, sizeof four);
}

FV_FN __m128i fv_pair_weight(const int16_t *w)
{
    int32_t bits;
    memcpy(&bits, w, sizeof bits);
    return _mm_set1_epi32(bits);
}

FV_FN fv_sums fv_sums_pairs(fv_sums s, const int16_t *p, const int16_t *w)
{
    return fv_sums_plus(s, (fv_sums)_mm_madd_epi16((__m128i)fv_sums_load(p), fv_pair_weight(w)));
}

FV_FN fv_block fv_block_rows(fv_block s, const uint8_t *a, const uint8_t *b, const int16_t *w)
{
    const __m128i x = (__m128i)fv_sums_load(a), y = (__m128i)fv_sums_load(b);
    const __m128i low = _mm_unpacklo_epi8(x, y), high = _mm_unpackhi_epi8(x, y);
    const __m128i none = _mm_setzero_si128(), pair = fv_pair_weight(w);
    const __m128i two[4] = {_mm_unpacklo_epi8(low, none), _mm_unpackhi_epi8(low, none),
                            _mm_unpacklo_epi8(high, none), _mm_unpackhi_epi8(high, none)};
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        s.v[i] = fv_sums_plus(s.v[i], (fv_sums)_mm_madd_epi16(two[i], pair));
    return s;
}

FV_FN void fv_block_bytes(uint8_t *out, const fv_block *s, uint32_t bits)
{
    const int by = (int)bits;
    const __m128i low = _mm_packs_epi32((__m128i)(s->v[0] >> by), (__m128i)(s->v[1] >> by));
    const __m128i high = _mm_packs_epi32((__m128i)(s->v[2] >> by), (__m128i)(s->v[3] >> by));
    _mm_storeu_si128((__m128i *)out, _mm_packus_epi16(low, high));
}

#elif defined __aarch64__
#include <arm_neon.h>

FV_FN void fv_pair_of(int16_t *out, const uint8_t *p, size_t step)
{
    const uint8x8_t x = vld1_u8(p), next = step == 3 ? vext_u8(x, x, 3) : vext_u8(x, x, 4);
    vst1q_s16(out, vreinterpretq_s16_u16(vmovl_u8(vzip1_u8(x, next))));
}

FV_FN void fv_sums_bytes(uint8_t *out, fv_sums s, uint32_t bits)
{
    const int16x4_t two = vqmovn_s32((int32x4_t)(s >> (int32_t)bits));
    const uint8x8_t four = vqmovun_s16(vcombine_s16(two, two));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(four), 0);
    memcpy(out, &bytes, sizeof bytes);
}

FV_FN fv_sums fv_sums_pairs(fv_sums s, const int16_t *p, const int16_t *w)
{
    int32_t bits;
    memcpy(&bits, w, sizeof bits);
    const int16x8_t x = vld1q_s16(p), pair = vreinterpretq_s16_s32(vdupq_n_s32(bits));
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(pair));
    return fv_sums_plus(s, (fv_sums)vpaddq_s32(low, vmull_high_s16(x, pair)));
}

FV_FN fv_block fv_block_add(fv_block s, uint8x16_t x, int16_t w)
{
    const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x)));
    const int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(x));
    s.v[0] = (fv_sums)vmlal_n_s16((int32x4_t)s.v[0], vget_low_s16(low), w);
    s.v[1] = (fv_sums)vmlal_high_n_s16((int32x4_t)s.v[1], low, w);
    s.v[2] = (fv_sums)vmlal_n_s16((int32x4_t)s.v[2], vget_low_s16(high), w);
    s.v[3] = (fv_sums)vmlal_high_n_s16((int32x4_t)s.v[3], high, w);
    return s;
}

FV_FN fv_block fv_block_rows(fv_block s, const uint8_t *a, const uint8_t *b, const int16_t *w)
{
    return fv_block_add(fv_block_add(s, vld1q_u8(a), w[0]), vld1q_u8(b), w[1]);
}

FV_FN void fv_block_bytes(uint8_t *out, const fv_block *s, uint32_t bits)
{
    const int by = (int)bits;
    const int16x8_t low = vcombine_s16(vqmovn_s32((int32x4_t)(s->v[0] >> by)),
                                       vqmovn_s32((int32x4_t)(s->v[1] >> by)));
    const int16x8_t high = vcombine_s16(vqmovn_s32((int32x4_t)(s->v[2] >> by)),
                                        vqmovn_s32((int32x4_t)(s->v[3] >> by)));
    vst1q_u8(out, vcombine_u8(vqmovun_s16(low), vqmovun_s16(high)));
}

#else

FV_FN void fv_pair_of(int16_t *out, const uint8_t *p, size_t step)
{
    for (int i = 0; i < 3; i++) {
        out[2 * i] = p[i];
        out[2 * i + 1] = p[step + (size_t)i];
    }
    out[6] = out[7] = 0;
}

FV_FN void fv_sums_bytes(uint8_t *out, fv_sums s, uint32_t bits)
{
    s >>= (int32_t)bits;
    for (int i = 0; i < FV_W; i++)
        out[i] = (uint8_t)(s[i] < 0 ? 0 : s[i] > 255 ? 255 : s[i]);
}

FV_FN fv_sums fv_sums_pairs(fv_sums s, const int16_t *p, const int16_t *w)
{
    for (int i = 0; i < FV_W; i++)
        s[i] += p[2 * i] * w[0] + p[2 * i + 1] * w[1];
    return s;
}

FV_FN fv_block fv_block_rows(fv_block s, const uint8_t *a, const uint8_t *b, const int16_t *w)
{
    for (int i = 0; i < FV_BLOCK; i++)
        s.v[i / FV_W][i % FV_W] += a[i] * w[0] + b[i] * w[1];
    return s;
}

FV_FN void fv_block_bytes(uint8_t *out, const fv_block *s, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        fv_sums_bytes(out + i * FV_W, s->v[i], bits);
}
#endif
#endif

#endif
