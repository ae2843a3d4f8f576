/* softmax_cpu.cl: SOFTMAX and, with FV_WINDOW, WSOFTMAX for devices whose work-items run one after
 * the other: a work-item has LANES queries of one head, side by side in vectors, as the CPU's own
 * kernel has them, so that maximum, sum and rescaling need no work across lanes:
 *
 *     Qt [FV_D][LANES], scaled, with log2(e)
 *     for each tile of keys:   S  = K Qt                          [keys][LANES]
 *                              m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *                              Ot = 2^(m - m') Ot + Vt P          [FV_DV][LANES]
 *     out = (Ot / l) transposed
 *
 * FV_D, FV_DV, FV_REGIONS as softmax.cl has them.
 */
#include "gpu/kernels/softmax_common.cl"

#define LANES 32
#define KEYS 48

/* 2^x for x <= 0; 0 where that is no normal number. */
static inline float16 power(float16 x)
{
    const float16 n = rint(max(x, (float16)-126.f)), t = max(x, (float16)-126.f) - n;
    float16 p = 1.5403530e-4f;
    p = p * t + 1.3333558e-3f;
    p = p * t + 9.6181291e-3f;
    p = p * t + 5.5504109e-2f;
    p = p * t + 2.4022651e-1f;
    p = p * t + 6.9314718e-1f;
    p = p * t + 1.f;
    p *= as_float16((convert_int16(n) + 127) << 23);
    return select(p, (float16)0.f, x < -126.f);
}

/* acc[i] += a[i] b for four factors and a row of LANES. */
#define ROW(acc, a, b0, b1)                                                                        \
    acc[0] += (a).s0 * b0, acc[1] += (a).s0 * b1, acc[2] += (a).s1 * b0, acc[3] += (a).s1 * b1,    \
        acc[4] += (a).s2 * b0, acc[5] += (a).s2 * b1, acc[6] += (a).s3 * b0, acc[7] += (a).s3 * b1

/* Qt of queries `begin` to `last`, the last one again in the lanes behind it. */
static inline void turn_queries(OPERANDS, float qt[FV_D * LANES], span s)
{
    const float scale = f.s0 * LOG2_E;
    for (uint r = 0; r < LANES; r++) {
        global const FV_CELL(0) *q =
            FV_AT(0, s.base + min(s.begin + r, s.last)) + get_group_id(1) * FV_D;
        for (uint i = 0; i < FV_D; i++)
            qt[i * LANES + r] = FV_GET(0, q + i) * scale;
    }
}

/* Of the n keys from row k0 on K Qt: [n, rounded up to 4][LANES]. */
static inline void multiply_keys(OPERANDS, float16 scores[2 * KEYS], const float qt[FV_D * LANES],
                                 uint k0, uint n)
{
    for (uint j = 0; j < n; j += 4) {
        global const FV_CELL(1) *k[4];
        float16 acc[8];
        for (uint t = 0; t < 4; t++)
            k[t] = FV_AT(1, k0 + min(j + t, n - 1)) + get_group_id(1) * FV_D;
        for (uint i = 0; i < 8; i++)
            acc[i] = 0.f;
        for (uint i = 0; i < FV_D; i++) {
            const float16 b0 = vload16(0, qt + i * LANES), b1 = vload16(1, qt + i * LANES);
            const float4 a = (float4)(FV_GET(1, k[0] + i), FV_GET(1, k[1] + i), FV_GET(1, k[2] + i),
                                      FV_GET(1, k[3] + i));
            ROW(acc, a, b0, b1);
        }
        for (uint i = 0; i < 8; i++)
            scores[2 * j + i] = acc[i];
    }
}

/* S of K Qt of the n keys from j0 on: a window's bias and regions; -INFINITY where the query does
 * not attend to the key. */
static inline void add_bias(OPERANDS, float *scores, span s, uint j0, uint n)
{
#if FV_WINDOW
    for (uint r = 0; s.begin + r <= s.last; r++) {
        for (uint j = 0; j < n; j++) {
#if FV_HAS3
            scores[j * LANES + r] +=
                LOG2_E * FV_GET(3, FV_AT(3, get_group_id(1) * dim.s3 + s.begin + r) + j0 + j);
#endif
#if FV_REGIONS
            global const uint *region = table + row0 + s.base;
            if (region[s.begin + r] != region[j0 + j])
                scores[j * LANES + r] -= 100.f * LOG2_E;
#endif
        }
    }
#else
    for (uint j = 0; FV_FLAGS & FV_FLAG_CAUSAL && j < n; j++)
        for (uint r = 0; r < LANES && row0 + s.begin + r < j0 + j; r++)
            scores[j * LANES + r] = -INFINITY;
#endif
}

/* m' in place of m in `top`, l in `sum`, P in place of S; 2^(m - m') to `fade`. Of 16 queries:
 * every second vector of the n keys' scores. */
static inline void weigh(float16 *scores, float16 *top, float16 *sum, float16 *fade, uint n)
{
    float16 high = *top, add = 0.f;
    for (uint j = 0; j < n; j++)
        high = max(high, scores[2 * j]);
    for (uint j = 0; j < n; j++)
        add += scores[2 * j] = power(scores[2 * j] - high);
    *fade = power(*top - high);
    *top = high;
    *sum = *sum * *fade + add;
}

/* Ot = fade Ot + Vt P, of the n keys from row v0 on. */
static inline void add_values(OPERANDS, float16 ot[2 * FV_DV], const float16 weights[2 * KEYS],
                              const float16 fade[2], uint v0, uint n)
{
    for (uint i = 0; i < FV_DV; i += 4) {
        float16 acc[8];
        for (uint t = 0; t < 8; t++)
            acc[t] = 0.f;
        global const FV_CELL(2) *v = FV_AT(2, v0) + get_group_id(1) * FV_DV + i;
        for (uint j = 0; j < n; j++, v += at2.y) {
            const float4 a = FV_GET_RUN(2, v, (int)FV_DV - (int)i, 0.f);
            const float16 b0 = weights[2 * j], b1 = weights[2 * j + 1];
            ROW(acc, a, b0, b1);
        }
        for (uint t = 0; t < 8 && 2 * i + t < 2 * FV_DV; t++)
            ot[2 * i + t] = ot[2 * i + t] * fade[t % 2] + acc[t];
    }
}

kernel void ATTENTION(OPERANDS)
{
    const span s = SPAN(LANES);
    float qt[FV_D * LANES], part[LANES];
    float16 ot[2 * FV_DV], scores[2 * KEYS], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
    turn_queries(OPERANDS_GIVEN, qt, s);
    for (uint i = 0; i < 2 * FV_DV; i++)
        ot[i] = 0.f;

    for (uint j0 = 0; j0 < s.end; j0 += KEYS) {
        const uint n = min(s.end - j0, (uint)KEYS);
        float16 fade[2];
        multiply_keys(OPERANDS_GIVEN, scores, qt, s.base + j0, n);
        add_bias(OPERANDS_GIVEN, (float *)scores, s, j0, n);
        for (uint v = 0; v < 2; v++)
            weigh(scores + v, top + v, sum + v, fade + v, n);
        add_values(OPERANDS_GIVEN, ot, scores, fade, s.base + j0, n);
    }

    const float *done = (const float *)ot;
    vstore16(1.f / sum[0], 0, part);
    vstore16(1.f / sum[1], 1, part);
    for (uint r = 0; s.begin + r <= s.last; r++)
        for (uint i = 0; i < FV_DV; i++)
            FV_PUT(OUT, FV_AT(OUT, s.base + s.begin + r) + get_group_id(1) * FV_DV + i,
                   done[i * LANES + r] * part[r]);
}
