/* neon.h: the vector vocabulary on AArch64 NEON. */
#ifndef FOVEA_PLATFORM_VEC_NEON_H
#define FOVEA_PLATFORM_VEC_NEON_H

#include <arm_neon.h>

#define FV_W 4
#define FV_REGS 32
#define FV_LDEXP_ANY 0
typedef float32x4_t fv_v;

FV_FN fv_v fv_set(float s)
{
    return vdupq_n_f32(s);
}

FV_FN fv_v fv_load(const float *p)
{
    return vld1q_f32(p);
}

FV_FN void fv_store(float *p, fv_v x)
{
    vst1q_f32(p, x);
}

FV_FN fv_v fv_load_n(const float *p, int n)
{
    if (n == FV_W)
        return fv_load(p);
    float lane[FV_W] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return vld1q_f32(lane);
}

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W) {
        fv_store(p, x);
        return;
    }
    float lane[FV_W];
    vst1q_f32(lane, x);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

FV_FN fv_v fv_first_n(fv_v x, int n)
{
    static const int32_t lane[FV_W] = {0, 1, 2, 3};
    uint32x4_t keep = vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), keep));
}

FV_FN fv_v fv_add(fv_v a, fv_v b)
{
    return vaddq_f32(a, b);
}

FV_FN fv_v fv_sub(fv_v a, fv_v b)
{
    return vsubq_f32(a, b);
}

FV_FN fv_v fv_mul(fv_v a, fv_v b)
{
    return vmulq_f32(a, b);
}

FV_FN fv_v fv_div(fv_v a, fv_v b)
{
    return vdivq_f32(a, b);
}

FV_FN fv_v fv_fma(fv_v a, fv_v b, fv_v c)
{
    return vfmaq_f32(c, a, b);
}

FV_FN fv_v fv_min(fv_v a, fv_v b)
{
    return vminq_f32(a, b);
}

FV_FN fv_v fv_max(fv_v a, fv_v b)
{
    return vmaxq_f32(a, b);
}

FV_FN fv_v fv_abs(fv_v x)
{
    return vabsq_f32(x);
}

FV_FN fv_v fv_neg(fv_v x)
{
    return vnegq_f32(x);
}

FV_FN fv_v fv_sel_lt(fv_v a, fv_v b, fv_v x, fv_v y)
{
    return vbslq_f32(vcltq_f32(a, b), x, y);
}

FV_FN fv_v fv_round(fv_v x)
{
    return vrndnq_f32(x);
}

FV_FN fv_v fv_ldexp(fv_v x, fv_v n)
{
    int32x4_t e = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), e));
}

FV_FN float fv_hsum(fv_v x)
{
    return vaddvq_f32(x);
}

FV_FN float fv_hmax(fv_v x)
{
    return vmaxvq_f32(x);
}

#endif
