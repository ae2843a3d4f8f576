/* avx2.h: the vector vocabulary on AVX2 with FMA. */
#ifndef FOVEA_PLATFORM_VEC_AVX2_H
#define FOVEA_PLATFORM_VEC_AVX2_H

#include <immintrin.h>

#define FV_W 8
#define FV_REGS 16
#define FV_LDEXP_ANY 0
typedef __m256 fv_v;

FV_FN __m256i fv_mask_n(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

FV_FN fv_v fv_set(float s)
{
    return _mm256_set1_ps(s);
}

FV_FN fv_v fv_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

FV_FN void fv_store(float *p, fv_v x)
{
    _mm256_storeu_ps(p, x);
}

FV_FN fv_v fv_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, fv_mask_n(n));
}

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W)
        fv_store(p, x);
    else
        _mm256_maskstore_ps(p, fv_mask_n(n), x);
}

FV_FN fv_v fv_first_n(fv_v x, int n)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(fv_mask_n(n)));
}

FV_FN fv_v fv_add(fv_v a, fv_v b)
{
    return _mm256_add_ps(a, b);
}

FV_FN fv_v fv_sub(fv_v a, fv_v b)
{
    return _mm256_sub_ps(a, b);
}

FV_FN fv_v fv_mul(fv_v a, fv_v b)
{
    return _mm256_mul_ps(a, b);
}

FV_FN fv_v fv_div(fv_v a, fv_v b)
{
    return _mm256_div_ps(a, b);
}

FV_FN fv_v fv_fma(fv_v a, fv_v b, fv_v c)
{
    return _mm256_fmadd_ps(a, b, c);
}

FV_FN fv_v fv_min(fv_v a, fv_v b)
{
    return _mm256_min_ps(a, b);
}

FV_FN fv_v fv_max(fv_v a, fv_v b)
{
    return _mm256_max_ps(a, b);
}

FV_FN fv_v fv_abs(fv_v x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.f), x);
}

FV_FN fv_v fv_neg(fv_v x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.f));
}

FV_FN fv_v fv_sel_lt(fv_v a, fv_v b, fv_v x, fv_v y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

FV_FN fv_v fv_round(fv_v x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FV_FN fv_v fv_ldexp(fv_v x, fv_v n)
{
    __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), e));
}

FV_FN float fv_hsum(fv_v x)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

FV_FN float fv_hmax(fv_v x)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

#endif
