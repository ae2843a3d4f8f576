/* whole_neon.h: floats and whole numbers on NEON. */

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    return vcvtq_f32_s32(vsubq_s32(vld1q_s32(x), vdupq_n_s32(off)));
}

FV_FN int32_t put_bytes(int8_t *q, fv_v x)
{
    const int32x4_t whole = vcvtnq_s32_f32(x);
    const int16x4_t words = vmovn_s32(whole);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    memcpy(q, &four, sizeof four);
    return vaddvq_s32(whole);
}
