/* gemm_dot.h: tiles of GEMM with weights in bfloat16 and activations in float32, by FEAT_BF16's
 * instruction, which multiplies 2 rows by 2 columns over 4 steps of k.
 *
 * An activation is split into the sum of two bfloat16, with a relative error of at most 2^-17.
 * Accumulators are float32; if K is at least LEAST_K, their rounding errors are as large. Panels
 * keep the 4 steps of a group together:
 *
 *   weight                                    activations, as take() writes them
 *   K4/4 x nr x 4 bfloat16                    K4/4 x (m x 4 leading parts, m x 4 remainders)
 */
#include "platform/cpu/arm/panel_bf16.h"

enum { LEAST_K = 256 };

static void take(void *rows, enum fv_type type, size_t groups, uint32_t m)
{
    float *panel = rows;
    (void)type;
    /* Beyond this the leading part would round to infinity. */
    const float32x4_t max = vdupq_n_f32(0x1.fep127f);
    for (; groups > 0; groups--, panel += 4 * m) {
        bfloat16x4_t part[2][MR];
        for (uint32_t i = 0; i < m; i++) {
            const float32x4_t x = vld1q_f32(panel + 4 * i);
            part[0][i] = vcvt_bf16_f32(vmaxq_f32(vminq_f32(x, max), vnegq_f32(max)));
            part[1][i] = vcvt_bf16_f32(vsubq_f32(x, vcvt_f32_bf16(part[0][i])));
        }
        memcpy(panel, part[0], m * sizeof **part);
        memcpy(panel + 2 * m, part[1], m * sizeof **part);
    }
}

/* Returns the number of rows i and i + 1 of m, with zeros for a row beyond m. */
FV_FN bfloat16x8_t two_rows(const bfloat16_t *a, int i, int m)
{
    if (i + 1 < m)
        return vld1q_bf16(a + 4 * i);
    return vcombine_bf16(vld1_bf16(a + 4 * i), vcreate_bf16(0));
}

/* Adds the products of all pairs of rows and pairs of columns. */
FV_FN void add_products(float32x4_t sum[MR / 2][NR / 2], const bfloat16_t *a, const bfloat16x8_t *w,
                        int m)
{
    FV_UNROLL
    for (int i = 0; i < m; i += 2) {
        const bfloat16x8_t x = two_rows(a, i, m);
        FV_UNROLL
        for (int j = 0; j < NR / 2; j++)
            sum[i / 2][j] = vbfmmlaq_f32(sum[i / 2][j], x, w[j]);
    }
}

FV_FN float32x4_t first_halves(float32x4_t x, float32x4_t y)
{
    return vcombine_f32(vget_low_f32(x), vget_low_f32(y));
}

FV_FN float32x4_t second_halves(float32x4_t x, float32x4_t y)
{
    return vcombine_f32(vget_high_f32(x), vget_high_f32(y));
}

FV_FN void pair_rows(float *acc, const float *a, const bfloat16_t *w, size_t groups, int m,
                     bool first, const char *prefetch)
{
    const bfloat16_t *in = (const bfloat16_t *)(const void *)a;
    float32x4_t sum[MR / 2][NR / 2]; /* each vector holds two rows by two columns, row by row */
    FV_UNROLL
    for (int i = 0; i < m; i += 2) {
        FV_UNROLL
        for (int j = 0; j < NR / 4; j++) {
            const float *from = acc + NR * i + 4 * j;
            const float32x4_t x = first ? vdupq_n_f32(0.f) : vld1q_f32(from);
            const float32x4_t y = first || i + 1 == m ? vdupq_n_f32(0.f) : vld1q_f32(from + NR);
            sum[i / 2][2 * j] = first_halves(x, y);
            sum[i / 2][2 * j + 1] = second_halves(x, y);
        }
    }
    for (; groups > 0; groups--, in += 8 * m, w += 4 * NR) {
        bfloat16x8_t pair[NR / 2];
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        FV_UNROLL
        for (int j = 0; j < NR / 2; j++)
            pair[j] = vld1q_bf16(w + 8 * j);
        add_products(sum, in, pair, m);
        add_products(sum, in + 4 * m, pair, m);
    }
    FV_UNROLL
    for (int i = 0; i < m; i += 2) {
        FV_UNROLL
        for (int j = 0; j < NR / 4; j++) {
            float *to = acc + NR * i + 4 * j;
            vst1q_f32(to, first_halves(sum[i / 2][2 * j], sum[i / 2][2 * j + 1]));
            if (i + 1 < m)
                vst1q_f32(to + NR, second_halves(sum[i / 2][2 * j], sum[i / 2][2 * j + 1]));
        }
    }
}

static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
#define CALL(M) pair_rows(acc, a, w, groups, M, first, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
