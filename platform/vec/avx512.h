/* avx512.h: the vector vocabulary on AVX-512 (F, BW, DQ, VL). */
#ifndef FOVEA_PLATFORM_VEC_AVX512_H
#define FOVEA_PLATFORM_VEC_AVX512_H

#include <immintrin.h>

#define FV_W 16
#define FV_REGS 32
#define FV_LDEXP_ANY 1
typedef __m512 fv_v;

FV_FN __mmask16 fv_mask_n(int n)
{
    return _cvtu32_mask16(_bzhi_u32(0xffffu, (unsigned)n));
}

FV_FN fv_v fv_set(float s)
{
    return _mm512_set1_ps(s);
}

FV_FN fv_v fv_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

FV_FN void fv_store(float *p, fv_v x)
{
    _mm512_storeu_ps(p, x);
}

FV_FN fv_v fv_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(fv_mask_n(n), p);
}

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    _mm512_mask_storeu_ps(p, fv_mask_n(n), x);
}

FV_FN fv_v fv_first_n(fv_v x, int n)
{
    return _mm512_maskz_mov_ps(fv_mask_n(n), x);
}

FV_FN fv_v fv_add(fv_v a, fv_v b)
{
    return _mm512_add_ps(a, b);
}

FV_FN fv_v fv_sub(fv_v a, fv_v b)
{
    return _mm512_sub_ps(a, b);
}

FV_FN fv_v fv_mul(fv_v a, fv_v b)
{
    return _mm512_mul_ps(a, b);
}

FV_FN fv_v fv_div(fv_v a, fv_v b)
{
    return _mm512_div_ps(a, b);
}

FV_FN fv_v fv_fma(fv_v a, fv_v b, fv_v c)
{
    return _mm512_fmadd_ps(a, b, c);
}

FV_FN fv_v fv_min(fv_v a, fv_v b)
{
    return _mm512_min_ps(a, b);
}

FV_FN fv_v fv_max(fv_v a, fv_v b)
{
    return _mm512_max_ps(a, b);
}

FV_FN fv_v fv_abs(fv_v x)
{
    return _mm512_abs_ps(x);
}

FV_FN fv_v fv_neg(fv_v x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.f));
}

FV_FN fv_v fv_sel_lt(fv_v a, fv_v b, fv_v x, fv_v y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

FV_FN fv_v fv_round(fv_v x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FV_FN fv_v fv_ldexp(fv_v x, fv_v n)
{
    return _mm512_scalef_ps(x, n);
}

FV_FN float fv_hsum(fv_v x)
{
    return _mm512_reduce_add_ps(x);
}

FV_FN float fv_hmax(fv_v x)
{
    return _mm512_reduce_max_ps(x);
}

#endif
