/* avx2.h: vec.h's vector functions on AVX2 with FMA. */
#ifndef FOVEA_PLATFORM_VEC_AVX2_H
#define FOVEA_PLATFORM_VEC_AVX2_H

#include <immintrin.h>

#define FV_W 8
#define FV_REGS 16
#define FV_LDEXP_ANY 0
typedef __m256 fv_v;
typedef __m128i fv_h;

FV_WORD(__m256i, fv_mask_n, (int n),
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
FV_WORD(fv_v, fv_set, (float s), _mm256_set1_ps(s))
FV_WORD(fv_v, fv_load, (const float *p), _mm256_loadu_ps(p))

FV_FN void fv_store(float *p, fv_v x)
{
    _mm256_storeu_ps(p, x);
}

FV_WORD(fv_v, fv_load_n, (const float *p, int n),
        n == FV_W ? fv_load(p) : _mm256_maskload_ps(p, fv_mask_n(n)))

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W)
        fv_store(p, x);
    else
        _mm256_maskstore_ps(p, fv_mask_n(n), x);
}

FV_WORD(fv_v, fv_first_n, (fv_v x, int n), _mm256_and_ps(x, _mm256_castsi256_ps(fv_mask_n(n))))
FV_WORD(fv_v, fv_blend_n, (fv_v x, fv_v y, int n),
        _mm256_blendv_ps(y, x, _mm256_castsi256_ps(fv_mask_n(n))))
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), _mm256_add_ps(a, b))
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), _mm256_sub_ps(a, b))
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), _mm256_mul_ps(a, b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), _mm256_div_ps(a, b))
FV_WORD(fv_v, fv_sqrt, (fv_v x), _mm256_sqrt_ps(x))
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), _mm256_fmadd_ps(a, b, c))
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), _mm256_min_ps(a, b))
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), _mm256_max_ps(a, b))
FV_WORD(fv_v, fv_abs, (fv_v x), _mm256_andnot_ps(_mm256_set1_ps(-0.f), x))
FV_WORD(fv_v, fv_neg, (fv_v x), _mm256_xor_ps(x, _mm256_set1_ps(-0.f)))
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y),
        _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)))
FV_WORD(fv_v, fv_round, (fv_v x), _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

FV_FN fv_v fv_ldexp(fv_v x, fv_v n)
{
    __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), e));
}

FV_FN fv_v fv_of_bits(fv_v y, fv_v *m)
{
    const __m256 x = _mm256_castsi256_ps(_mm256_cvttps_epi32(y));
    const __m256 low = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffff));
    *m = _mm256_or_ps(_mm256_and_ps(x, low), _mm256_set1_ps(1.f));
    return x;
}

FV_FN fv_v fv_frexp(fv_v x, fv_v *e)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i n = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f3504f3)), 23);
    *e = _mm256_cvtepi32_ps(n);
    return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(n, 23)));
}

FV_FN fv_v fv_turn(fv_v x)
{
    const __m256 sign = _mm256_setr_ps(-0.f, 0.f, -0.f, 0.f, -0.f, 0.f, -0.f, 0.f);
    return _mm256_xor_ps(_mm256_permute_ps(x, 0xb1), sign);
}

FV_FN float fv_hsum(fv_v x)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

FV_FN fv_v fv_hsum_rows(const float *p)
{
    __m256 half[2]; /* half h of the register: sums of rows 4h .. 4h + 3 */
    for (int h = 0; h < 2; h++, p += 32)
        half[h] = _mm256_hadd_ps(_mm256_hadd_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)),
                                 _mm256_hadd_ps(_mm256_loadu_ps(p + 16), _mm256_loadu_ps(p + 24)));
    return _mm256_add_ps(_mm256_permute2f128_ps(half[0], half[1], 0x20),
                         _mm256_permute2f128_ps(half[0], half[1], 0x31));
}

FV_FN float fv_hmax(fv_v x)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

FV_WORD(fv_v, fv_load_i8, (const int8_t *p),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))))
FV_WORD(fv_v, fv_of_f16, (fv_h h), _mm256_cvtph_ps(h))
FV_WORD(fv_h, fv_to_f16, (fv_v x),
        _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
FV_WORD(fv_v, fv_of_bf16, (fv_h h),
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)))

/* Returns x as bfloat16 in the upper half of each lane. Rounds with integer instructions, because
 * the conversion instruction flushes subnormal values to zero. */
FV_FN __m256i fv_bf16_above(fv_v x)
{
    const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i y = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(y, quiet, nan);
}

FV_FN fv_h fv_to_bf16(fv_v x)
{
    const __m256i y = _mm256_srli_epi32(fv_bf16_above(x), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
}

FV_WORD(fv_v, fv_round_bf16, (fv_v x),
        _mm256_castsi256_ps(_mm256_and_si256(fv_bf16_above(x), _mm256_set1_epi32(-0x10000))))

#endif
