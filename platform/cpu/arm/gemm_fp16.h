/* gemm_fp16.h: tiles of weights in float16, multiplied in float16 (FEAT_FP16).
 *
 * The products of a group of 4 steps of k are summed in float16, the groups in float32. Sums of 8
 * steps in float16 would be faster by a third, but then the error of models exceeds what the
 * library allows for such weights. A row of activations is scaled by a power of two to below 1/4,
 * so that no sum overflows, whatever the weights: 4 * 65504 / 4 is the largest float16. take()
 * converts a panel to
 *
 *   m floats, by which the rows' sums are multiplied afterwards
 *   K4/4 x m x 4 float16
 */

static void narrow(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_F16, src, FV_F32, n);
}

/* Returns the exponent bits of the power of two that scales a row whose largest absolute value is
 * `top`. Rows that are infinite, NaN or close to overflow get the smallest power. */
FV_FN uint32_t exponent_of_scale(float top)
{
    const uint32_t exponent = fv_bits_of_float(top) >> 23 & 255;
    return exponent < 251 ? 251 - exponent : 1;
}

static void take(void *rows, enum fv_type type, size_t groups, uint32_t m)
{
    float *panel = rows;
    (void)type;
    float32x4_t top[MR], scale[MR];
    float back[MR];
    char *out = (char *)(panel + m);
    for (uint32_t i = 0; i < m; i++)
        top[i] = vdupq_n_f32(0.f);
    for (size_t g = 0; g < groups; g++)
        for (uint32_t i = 0; i < m; i++)
            top[i] = vmaxq_f32(top[i], vabsq_f32(vld1q_f32(panel + (g * m + i) * 4)));
    for (uint32_t i = 0; i < m; i++) {
        const uint32_t exponent = exponent_of_scale(vmaxvq_f32(top[i]));
        scale[i] = vdupq_n_f32(fv_float_of_bits(exponent << 23));
        back[i] = fv_float_of_bits((254 - exponent) << 23);
    }
    for (size_t g = 0; g < groups; g++) {
        /* All rows are read first, because the group's float16 overwrite its floats. */
        float16x4_t group[MR];
        for (uint32_t i = 0; i < m; i++)
            group[i] = vcvt_f16_f32(vmulq_f32(scale[i], vld1q_f32(panel + (g * m + i) * 4)));
        for (uint32_t i = 0; i < m; i++)
            memcpy(out + (g * m + i) * sizeof *group, &group[i], sizeof *group);
    }
    memcpy(panel, back, m * sizeof *back);
}

/* Returns sum + x[lane] * row. x must be in one of the first 16 registers. This is assembly because
 * GCC compiles the intrinsic to a broadcast of the lane and a multiply-add. */
FV_FN float16x8_t fma_lane(float16x8_t x, int lane, float16x8_t row, float16x8_t sum)
{
    switch (lane) {
#define LANE(n)                                                                                    \
    case n:                                                                                        \
        __asm__("fmla %0.8h, %1.8h, %2.h[" #n "]" : "+w"(sum) : "w"(row), "x"(x));                 \
        break;
        LANE(0)
        LANE(1)
        LANE(2)
        LANE(3)
        LANE(4)
        LANE(5)
        LANE(6)
        LANE(7)
#undef LANE
    }
    return sum;
}

/* Adds four steps of k for m rows; rows 2i and 2i + 1 share a vector. */
FV_FN void add_halves(float16x8_t part[MR], const float16_t *a, const float16_t *w, int m)
{
    float16x8_t x[MR / 2];
    FV_UNROLL
    for (int i = 0; i < m; i += 2)
        x[i / 2] =
            i + 1 < m ? vld1q_f16(a + 4 * i) : vcombine_f16(vld1_f16(a + 4 * i), vdup_n_f16(0));
    FV_UNROLL
    for (int k = 0; k < 4; k++) {
        const float16x8_t row = vld1q_f16(w + NR * k);
        FV_UNROLL
        for (int i = 0; i < m; i++)
            part[i] = fma_lane(x[i / 2], i % 2 * 4 + k, row, part[i]);
    }
}

FV_FN void half_rows(float *acc, const float *a, const float16_t *w, size_t groups, int m,
                     bool first, const char *prefetch)
{
    const float16_t *in = (const float16_t *)(const void *)(a + m);
    fv_v sum[MR][VECS];
    fv_four back[(MR + 3) / 4];
    FV_UNROLL
    for (int i = 0; i < m; i += 4)
        back[i / 4] = fv_load_four(a + i);
    begin_sums(sum, acc, m, first);
    for (; groups > 0; groups--, in += 4 * m, w += 4 * NR) {
        float16x8_t part[MR];
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        FV_UNROLL
        for (int i = 0; i < m; i++)
            part[i] = vdupq_n_f16(0);
        add_halves(part, in, w, m);
        FV_UNROLL
        for (int i = 0; i < m; i++) {
            const fv_v left = vcvt_f32_f16(vget_low_f16(part[i])),
                       right = vcvt_high_f32_f16(part[i]);
            sum[i][0] = fv_fma_four(back[i / 4], i % 4, left, sum[i][0]);
            sum[i][1] = fv_fma_four(back[i / 4], i % 4, right, sum[i][1]);
        }
    }
    end_sums(acc, sum, m);
}

static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
#define CALL(M) half_rows(acc, a, w, groups, M, first, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
