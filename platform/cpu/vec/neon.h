/* neon.h: vec.h's vector functions on AArch64 NEON. */
#ifndef FOVEA_PLATFORM_VEC_NEON_H
#define FOVEA_PLATFORM_VEC_NEON_H

#include <arm_neon.h>

#define FV_W 4
#define FV_REGS 32
#define FV_LDEXP_ANY 0
#define FV_FOURS 1
typedef float32x4_t fv_v;
typedef float32x4_t fv_four;
typedef uint16x4_t fv_h;

FV_WORD(fv_v, fv_set, (float s), vdupq_n_f32(s))
FV_WORD(fv_v, fv_load, (const float *p), vld1q_f32(p))

FV_FN void fv_store(float *p, fv_v x)
{
    vst1q_f32(p, x);
}

FV_PART fv_v fv_load_part(const float *p, int n)
{
    float lane[FV_W] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return vld1q_f32(lane);
}

FV_PART void fv_store_part(float *p, fv_v x, int n)
{
    float lane[FV_W];
    vst1q_f32(lane, x);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

FV_FN fv_v fv_load_n(const float *p, int n)
{
    return n == FV_W ? fv_load(p) : fv_load_part(p, n);
}

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W)
        fv_store(p, x);
    else
        fv_store_part(p, x, n);
}

FV_FN uint32x4_t fv_mask_n(int n)
{
    static const int32_t lane[FV_W] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}

FV_WORD(fv_v, fv_first_n, (fv_v x, int n),
        vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), fv_mask_n(n))))
FV_WORD(fv_v, fv_blend_n, (fv_v x, fv_v y, int n), vbslq_f32(fv_mask_n(n), x, y))
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), vaddq_f32(a, b))
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), vsubq_f32(a, b))
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), vmulq_f32(a, b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), vdivq_f32(a, b))
FV_WORD(fv_v, fv_sqrt, (fv_v x), vsqrtq_f32(x))
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), vfmaq_f32(c, a, b))
FV_WORD(fv_four, fv_load_four, (const float *p), vld1q_f32(p))
FV_WORD(fv_v, fv_fma_four, (fv_four x, int i, fv_v b, fv_v c),
        vfmaq_n_f32(c, b, x[i])) /* multiplies by a lane if i is a constant */
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), vminq_f32(a, b))
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), vmaxq_f32(a, b))
FV_WORD(fv_v, fv_abs, (fv_v x), vabsq_f32(x))
FV_WORD(fv_v, fv_neg, (fv_v x), vnegq_f32(x))
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y), vbslq_f32(vcltq_f32(a, b), x, y))
FV_WORD(fv_v, fv_round, (fv_v x), vrndnq_f32(x))

FV_FN fv_v fv_ldexp(fv_v x, fv_v n)
{
    int32x4_t e = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), e));
}

FV_FN fv_v fv_of_bits(fv_v y, fv_v *m)
{
    const int32x4_t bits = vcvtq_s32_f32(y);
    *m = vbslq_f32(vdupq_n_u32(0x7fffff), vreinterpretq_f32_s32(bits), vdupq_n_f32(1.f));
    return vreinterpretq_f32_s32(bits);
}

FV_FN fv_v fv_frexp(fv_v x, fv_v *e)
{
    int32x4_t bits = vreinterpretq_s32_f32(x);
    int32x4_t n = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(0x3f3504f3)), 23);
    *e = vcvtq_f32_s32(n);
    return vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(n, 23)));
}

FV_WORD(fv_v, fv_turn, (fv_v x), vtrn1q_f32(vrev64q_f32(vnegq_f32(x)), x))
FV_WORD(float, fv_hsum, (fv_v x), vaddvq_f32(x))
FV_WORD(fv_v, fv_hsum_rows, (const float *p),
        vpaddq_f32(vpaddq_f32(vld1q_f32(p), vld1q_f32(p + 4)),
                   vpaddq_f32(vld1q_f32(p + 8), vld1q_f32(p + 12))))
FV_WORD(float, fv_hmax, (fv_v x), vmaxvq_f32(x))

FV_FN fv_v fv_load_i8(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    const int16x8_t x = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(x)));
}

FV_WORD(fv_v, fv_of_f16, (fv_h h), vcvt_f32_f16(vreinterpret_f16_u16(h)))
FV_WORD(fv_h, fv_to_f16, (fv_v x), vreinterpret_u16_f16(vcvt_f16_f32(x)))
FV_WORD(fv_v, fv_of_bf16, (fv_h h), vreinterpretq_f32_u32(vshll_n_u16(h, 16)))

/* Returns x as bfloat16 in the upper half of each lane. */
FV_FN uint32x4_t fv_bf16_above(fv_v x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t even = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t y = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), even);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(x, x), y, quiet);
}

FV_WORD(fv_h, fv_to_bf16, (fv_v x), vshrn_n_u32(fv_bf16_above(x), 16))
FV_WORD(fv_v, fv_round_bf16, (fv_v x),
        vreinterpretq_f32_u32(vandq_u32(fv_bf16_above(x), vdupq_n_u32(0xffff0000))))

#endif
