/* emulated_x86.h: emulates instructions that this processor may lack by those of the level below. A
 * kernel template that includes this file can be checked on processors that could not run the
 * kernel. */
#ifndef FOVEA_TESTS_EMULATED_X86_H
#define FOVEA_TESTS_EMULATED_X86_H

#include <immintrin.h>

#ifdef __AVX512F__
/* Computes two multiply-adds, the one of the odd elements first, and flushes subnormal values to
 * zero. */
static inline __m512 emulated_dpbf16(__m512 sum, __m512i x, __m512i y)
{
    const __m512i odd = _mm512_set1_epi32((int)0xffff0000);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, odd)),
                          _mm512_castsi512_ps(_mm512_and_si512(y, odd)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), sum);
}

/* Rounds to nearest even and flushes subnormal values to zero. The second operand becomes the lower
 * half. */
static inline __m256i emulated_round(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    __m512i y = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
    const __m512 size = _mm512_abs_ps(x);
    y = _mm512_mask_or_epi32(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
                             _mm512_set1_epi32(0x400000));
    y = _mm512_mask_and_epi32(y, _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ),
                              bits, _mm512_set1_epi32((int)0x80000000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(y, 16));
}

static inline __m512i emulated_cvtne2ps(__m512 high, __m512 low)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(emulated_round(low)), emulated_round(high), 1);
}

#define fv_dpbf16(sum, x, y) emulated_dpbf16(sum, (__m512i)(x), (__m512i)(y))
#define _mm512_cvtne2ps_pbh(high, low) ((__m512bh)emulated_cvtne2ps(high, low))

/* Multiplies unsigned by signed bytes: even positions first, then odd ones. */
static inline __m512i emulated_dpbusd_512(__m512i sum, __m512i u, __m512i s)
{
    const __m512i low = _mm512_set1_epi16(0xff);
    const __m512i even =
        _mm512_madd_epi16(_mm512_and_si512(u, low), _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
#define fv_dpbusd emulated_dpbusd_512
#else
static inline __m256i emulated_dpbusd_256(__m256i sum, __m256i u, __m256i s)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    const __m256i even =
        _mm256_madd_epi16(_mm256_and_si256(u, low), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
#define fv_dpbusd emulated_dpbusd_256
#endif

#endif
