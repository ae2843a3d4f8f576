/* avx512.h: vec.h's vector functions on AVX-512 (F, BW, DQ, VL). */
#ifndef FOVEA_PLATFORM_VEC_AVX512_H
#define FOVEA_PLATFORM_VEC_AVX512_H

#include <immintrin.h>

#define FV_W 16
#define FV_REGS 32
#define FV_LDEXP_ANY 1
#define FV_MASKED_HALVES 1
typedef __m512 fv_v;
typedef __m256i fv_h;

FV_WORD(__mmask16, fv_mask_n, (int n), _cvtu32_mask16(_bzhi_u32(0xffffu, (unsigned)n)))
FV_WORD(fv_v, fv_set, (float s), _mm512_set1_ps(s))
FV_WORD(fv_v, fv_load, (const float *p), _mm512_loadu_ps(p))

FV_FN void fv_store(float *p, fv_v x)
{
    _mm512_storeu_ps(p, x);
}

FV_WORD(fv_v, fv_load_n, (const float *p, int n), _mm512_maskz_loadu_ps(fv_mask_n(n), p))

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W)
        fv_store(p, x);
    else
        _mm512_mask_storeu_ps(p, fv_mask_n(n), x);
}

FV_WORD(fv_v, fv_first_n, (fv_v x, int n), _mm512_maskz_mov_ps(fv_mask_n(n), x))
FV_WORD(fv_v, fv_blend_n, (fv_v x, fv_v y, int n), _mm512_mask_mov_ps(y, fv_mask_n(n), x))
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), _mm512_add_ps(a, b))
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), _mm512_sub_ps(a, b))
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), _mm512_mul_ps(a, b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), _mm512_div_ps(a, b))
FV_WORD(fv_v, fv_sqrt, (fv_v x), _mm512_sqrt_ps(x))
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), _mm512_fmadd_ps(a, b, c))
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), _mm512_min_ps(a, b))
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), _mm512_max_ps(a, b))
FV_WORD(fv_v, fv_abs, (fv_v x), _mm512_abs_ps(x))
FV_WORD(fv_v, fv_neg, (fv_v x), _mm512_xor_ps(x, _mm512_set1_ps(-0.f)))
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y),
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x))
FV_WORD(fv_v, fv_round, (fv_v x),
        _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
FV_WORD(fv_v, fv_ldexp, (fv_v x, fv_v n), _mm512_scalef_ps(x, n))

FV_FN fv_v fv_of_bits(fv_v y, fv_v *m)
{
    const __m512i bits = _mm512_cvttps_epi32(y);
    *m = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x7fffff),
                                                       _mm512_set1_epi32(0x3f800000), 0xea));
    return _mm512_castsi512_ps(bits);
}

FV_FN fv_v fv_frexp(fv_v x, fv_v *e)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i n = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(0x3f3504f3)), 23);
    *e = _mm512_cvtepi32_ps(n);
    return _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(n, 23)));
}

FV_FN fv_v fv_turn(fv_v x)
{
    const __m512 sign = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000)); /* of even lanes */
    return _mm512_xor_ps(_mm512_permute_ps(x, 0xb1), sign);
}

FV_WORD(float, fv_hsum, (fv_v x), _mm512_reduce_add_ps(x))

/* Returns partial sums of the four rows from p on: quarter i of the result holds the sums of
 * quarter i of each row. */
FV_FN __m512 fv_hsum_4(const float *p)
{
    const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
    const __m512 c = _mm512_loadu_ps(p + 32), d = _mm512_loadu_ps(p + 48);
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}

FV_FN fv_v fv_hsum_rows(const float *p)
{
    const __m512 a = fv_hsum_4(p), b = fv_hsum_4(p + 64);
    const __m512 c = fv_hsum_4(p + 128), d = fv_hsum_4(p + 192);
    const __m512 ab =
        _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    const __m512 cd =
        _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x88), _mm512_shuffle_f32x4(c, d, 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

FV_WORD(float, fv_hmax, (fv_v x), _mm512_reduce_max_ps(x))
FV_WORD(fv_h, fv_load_h, (const uint16_t *p, int n), _mm256_maskz_loadu_epi16(fv_mask_n(n), p))

FV_FN void fv_store_h(uint16_t *p, fv_h h, int n)
{
    if (n == FV_W)
        _mm256_storeu_si256((__m256i *)p, h);
    else
        _mm256_mask_storeu_epi16(p, fv_mask_n(n), h);
}

FV_WORD(fv_v, fv_load_i8, (const int8_t *p),
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))))
FV_WORD(fv_v, fv_of_f16, (fv_h h), _mm512_cvtph_ps(h))
FV_WORD(fv_h, fv_to_f16, (fv_v x),
        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
FV_WORD(fv_v, fv_of_bf16, (fv_h h),
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)))

/* Returns x as bfloat16 in the upper half of each lane. Rounds with integer instructions, because
 * the conversion instruction flushes subnormal values to zero. */
FV_FN __m512i fv_bf16_above(fv_v x)
{
    const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i y = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
    return _mm512_mask_or_epi32(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
                                _mm512_set1_epi32(0x400000));
}

FV_WORD(fv_h, fv_to_bf16, (fv_v x), _mm512_cvtepi32_epi16(_mm512_srli_epi32(fv_bf16_above(x), 16)))
FV_WORD(fv_v, fv_round_bf16, (fv_v x),
        _mm512_castsi512_ps(_mm512_and_si512(fv_bf16_above(x), _mm512_set1_epi32(-0x10000))))

#endif
