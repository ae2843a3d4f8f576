/* softmax_cpu_tiles.cl: softmax attention by tiles of keys, for devices whose work-items run one
 * after the other: a work-item has LANES queries of one head, side by side in vectors, as the CPU's
 * own kernel has them, so that maximum, sum and rescaling need no work across lanes:
 *
 *     Qt [FV_D][LANES], scaled, with log2(e)
 *     for each tile of keys:   S  = K Qt                          [keys][LANES]
 *                              m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *                              Ot = 2^(m - m') Ot + Vt P          [FV_DV][LANES]
 *     out = (Ot / l) transposed
 *
 * FV_D, FV_DV  width of a head's keys and values
 *
 * Which rows these are is said by what includes this:
 *
 *   span, query_row(s, r), is_query(s, r)  the queries, as softmax_tiles.cl has them
 *   tile                                   keys: t->n of them
 *   TILE_ROW(X, j)                         row j of the tile, of operand X
 */
#define LANES 32
#define KEYS 48

/* 2^x for x <= 0; 0 where the result is not a normal number. */
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

/* Qt of the queries. */
static inline void turn_queries(OPERANDS, float qt[FV_D * LANES], span s)
{
    const float scale = f.s0 * LOG2_E;
    for (uint r = 0; r < LANES; r++) {
        global const FV_CELL(0) *q = FV_AT(0, query_row(s, r)) + get_group_id(1) * FV_D;
        for (uint i = 0; i < FV_D; i++)
            qt[i * LANES + r] = FV_GET(0, q + i) * scale;
    }
}

/* Of the tile's keys, operand X, K Qt: [n, rounded up to 4][LANES]. */
#define DEFINE_MULTIPLY_KEYS(name, X)                                                              \
    static inline void name(OPERANDS, float16 scores[2 * KEYS], const float qt[FV_D * LANES],      \
                            const tile *t)                                                         \
    {                                                                                              \
        for (uint j = 0; j < t->n; j += 4) {                                                       \
            global const FV_CELL(X) *k[4];                                                         \
            float16 acc[8];                                                                        \
            for (uint i = 0; i < 4; i++)                                                           \
                k[i] = TILE_ROW(X, min(j + i, t->n - 1)) + get_group_id(1) * FV_D;                 \
            for (uint i = 0; i < 8; i++)                                                           \
                acc[i] = 0.f;                                                                      \
            for (uint i = 0; i < FV_D; i++) {                                                      \
                const float16 b0 = vload16(0, qt + i * LANES), b1 = vload16(1, qt + i * LANES);    \
                const float4 a = (float4)(FV_GET(X, k[0] + i), FV_GET(X, k[1] + i),                \
                                          FV_GET(X, k[2] + i), FV_GET(X, k[3] + i));               \
                ROW(acc, a, b0, b1);                                                               \
            }                                                                                      \
            for (uint i = 0; i < 8; i++)                                                           \
                scores[2 * j + i] = acc[i];                                                        \
        }                                                                                          \
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

/* Ot = fade Ot + Vt P, of the tile's values, operand X. */
#define DEFINE_ADD_VALUES(name, X)                                                                 \
    static inline void name(OPERANDS, float16 ot[2 * FV_DV], const float16 weights[2 * KEYS],      \
                            const float16 fade[2], const tile *t)                                  \
    {                                                                                              \
        for (uint i = 0; i < FV_DV; i += 4) {                                                      \
            float16 acc[8];                                                                        \
            for (uint r = 0; r < 8; r++)                                                           \
                acc[r] = 0.f;                                                                      \
            for (uint j = 0; j < t->n; j++) {                                                      \
                global const FV_CELL(X) *v = TILE_ROW(X, j) + get_group_id(1) * FV_DV + i;         \
                const float4 a = FV_GET_RUN(X, v, (int)FV_DV - (int)i, 0.f);                       \
                const float16 b0 = weights[2 * j], b1 = weights[2 * j + 1];                        \
                ROW(acc, a, b0, b1);                                                               \
            }                                                                                      \
            for (uint r = 0; r < 8 && 2 * i + r < 2 * FV_DV; r++)                                  \
                ot[2 * i + r] = ot[2 * i + r] * fade[r % 2] + acc[r];                              \
        }                                                                                          \
    }

/* (Ot / l) transposed. */
static inline void write_queries(OPERANDS, const float16 ot[2 * FV_DV], const float16 sum[2],
                                 span s)
{
    const float *done = (const float *)ot;
    float part[LANES];
    vstore16(1.f / sum[0], 0, part);
    vstore16(1.f / sum[1], 1, part);
    for (uint r = 0; r < LANES; r++)
        for (uint i = 0; i < FV_DV && is_query(s, r); i++)
            FV_PUT(OUT, FV_AT(OUT, query_row(s, r)) + get_group_id(1) * FV_DV + i,
                   done[i * LANES + r] * part[r]);
}
