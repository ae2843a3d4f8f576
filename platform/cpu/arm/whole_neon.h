/* whole_neon.h: converts between floats and integers on NEON, for gemm_i8_tmpl.c. */

typedef int8_t number;
typedef int32x4_t sums;

FV_WORD(sums, none, (void), vdupq_n_s32(0))

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    return vcvtq_f32_s32(vsubq_s32(vld1q_s32(x), vdupq_n_s32(off)));
}

FV_FN void put_64(number *q, const fv_v x[FV_ROTATED], sums *total)
{
    (void)total; /* not needed: no operand has an offset */
    FV_UNROLL
    for (int v = 0; v < FV_ROTATED; v += 4) {
        const int16x8_t low =
            vcombine_s16(vmovn_s32(vcvtnq_s32_f32(x[v])), vmovn_s32(vcvtnq_s32_f32(x[v + 1])));
        const int16x8_t high =
            vcombine_s16(vmovn_s32(vcvtnq_s32_f32(x[v + 2])), vmovn_s32(vcvtnq_s32_f32(x[v + 3])));
        vst1q_s8(q + 4 * v, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    }
}

FV_FN int32_t total_of(sums total)
{
    (void)total;
    return 0;
}
