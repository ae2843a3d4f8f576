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
#define LANES 32
#define KEYS 48
#define LOG2_E 1.44269504f

#if FV_WINDOW
#define FV_TOUT FV_T4
#define baseOUT base4
#define atOUT at4
#else
#define FV_TOUT FV_T3
#define baseOUT base3
#define atOUT at3
#endif

/* 2^x for x <= 0; 0 where that is no normal number. */
inline float16 power(float16 x)
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

#if FV_WINDOW
kernel void wsoftmax(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
#else
kernel void softmax(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
#endif
{
    const uint head = get_group_id(1), keys = dim.s3;
#if FV_WINDOW
    const uint blocks = (keys + LANES - 1) / LANES;
    const uint base = get_group_id(0) / blocks * keys, queries = keys;
    const uint begin = get_group_id(0) % blocks * LANES;
#else
    const uint base = 0, queries = rows, begin = get_group_id(0) * LANES;
#endif
    const uint count = min((uint)LANES, queries - begin);
    const uint end = FV_FLAGS & FV_FLAG_CAUSAL ? min(keys, row0 + begin + count) : keys;
    const float scale = f.s0 * LOG2_E;
    float qt[FV_D * LANES];
    float16 ot[2 * FV_DV], s[2 * KEYS], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

    for (uint r = 0; r < LANES; r++) {
        global const FV_CELL(0) *q = FV_AT(0, base + begin + min(r, count - 1)) + head * FV_D;
        for (uint i = 0; i < FV_D; i++)
            qt[i * LANES + r] = FV_GET(0, q + i) * scale;
    }
    for (uint i = 0; i < 2 * FV_DV; i++)
        ot[i] = 0.f;

    for (uint j0 = 0; j0 < end; j0 += KEYS) {
        const uint n = min(end - j0, (uint)KEYS);
        for (uint j = 0; j < n; j += 4) {
            global const FV_CELL(1) *k0 = FV_AT(1, base + j0 + j) + head * FV_D;
            global const FV_CELL(1) *k1 = FV_AT(1, base + j0 + min(j + 1, n - 1)) + head * FV_D;
            global const FV_CELL(1) *k2 = FV_AT(1, base + j0 + min(j + 2, n - 1)) + head * FV_D;
            global const FV_CELL(1) *k3 = FV_AT(1, base + j0 + min(j + 3, n - 1)) + head * FV_D;
            float16 acc[8];
            for (uint i = 0; i < 8; i++)
                acc[i] = 0.f;
            for (uint i = 0; i < FV_D; i++) {
                const float16 b0 = vload16(0, qt + i * LANES), b1 = vload16(1, qt + i * LANES);
                const float4 a = (float4)(FV_GET(1, k0 + i), FV_GET(1, k1 + i), FV_GET(1, k2 + i),
                                          FV_GET(1, k3 + i));
                ROW(acc, a, b0, b1);
            }
            for (uint i = 0; i < 8; i++)
                s[2 * j + i] = acc[i];
        }
#if FV_WINDOW
        float *raw = (float *)s;
        for (uint r = 0; r < count; r++) {
            for (uint j = 0; j < n; j++) {
#if FV_HAS3
                raw[j * LANES + r] +=
                    LOG2_E * FV_GET(3, FV_AT(3, head * keys + begin + r) + j0 + j);
#endif
#if FV_REGIONS
                global const uint *region = table + row0 + base;
                if (region[begin + r] != region[j0 + j])
                    raw[j * LANES + r] -= 100.f * LOG2_E;
#endif
            }
        }
#else
        if (FV_FLAGS & FV_FLAG_CAUSAL) {
            float *raw = (float *)s;
            for (uint j = 0; j < n; j++)
                for (uint r = 0; r < LANES && row0 + begin + r < j0 + j; r++)
                    raw[j * LANES + r] = -INFINITY;
        }
#endif
        float16 fade[2];
        for (uint v = 0; v < 2; v++) {
            float16 high = top[v], add = 0.f;
            for (uint j = 0; j < n; j++)
                high = max(high, s[2 * j + v]);
            for (uint j = 0; j < n; j++)
                add += s[2 * j + v] = power(s[2 * j + v] - high);
            fade[v] = power(top[v] - high);
            top[v] = high;
            sum[v] = sum[v] * fade[v] + add;
        }
        for (uint i = 0; i < FV_DV; i += 4) {
            float16 acc[8];
            for (uint t = 0; t < 8; t++)
                acc[t] = 0.f;
            global const FV_CELL(2) *v = FV_AT(2, base + j0) + head * FV_DV + i;
            for (uint j = 0; j < n; j++, v += at2.y) {
                const float4 a =
                    i + 4 <= FV_DV ? FV_GET4(2, v)
                                   : (float4)(FV_GET(2, v), i + 1 < FV_DV ? FV_GET(2, v + 1) : 0.f,
                                              i + 2 < FV_DV ? FV_GET(2, v + 2) : 0.f, 0.f);
                const float16 b0 = s[2 * j], b1 = s[2 * j + 1];
                ROW(acc, a, b0, b1);
            }
            for (uint t = 0; t < 8 && 2 * i + t < 2 * FV_DV; t++)
                ot[2 * i + t] = ot[2 * i + t] * fade[t % 2] + acc[t];
        }
    }

    const float *done = (const float *)ot;
    float part[LANES];
    vstore16(1.f / sum[0], 0, part);
    vstore16(1.f / sum[1], 1, part);
    for (uint r = 0; r < count; r++)
        for (uint i = 0; i < FV_DV; i++)
            FV_PUT(OUT, FV_AT(OUT, base + begin + r) + head * FV_DV + i,
                   done[i * LANES + r] * part[r]);
}
