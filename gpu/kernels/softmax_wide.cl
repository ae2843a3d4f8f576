/* softmax_wide.cl: softmax attention on CPUs: SOFTMAX over all keys and, with FV_WINDOW, WSOFTMAX
 * inside windows of rows.
 *
 * A work-item has its group to itself. It computes LANES queries of a head, one in each element of
 * its vectors, with online statistics by tiles of KEYS keys, as softmax_tiles.cl describes. So the
 * elements of a vector are never summed, and a channel of a key or a value is one number for all of
 * them. Scores include the factor log2(e).
 *
 * FV_D, FV_DV  width of a head's keys and values
 * FV_REGIONS   WSOFTMAX: 1 with a table of regions
 * FV_REL_POS   1 with relative positions
 */
#include "gpu/kernels/fma.cl"
#include "gpu/kernels/softmax_common.cl"

#define LANES 16
#define KEYS 32
#define RUN 4 /* keys, or channels of values, at a time: their sums fit the registers */
#define VALUES ((FV_DV + RUN - 1) / RUN * RUN)
/* Whether something is added to the scores. */
#define ADDS (FV_REL_POS || (FV_WINDOW && (FV_HAS3 || FV_REGIONS)))
#define LANE ((uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

/* 2^x for x <= 0, with an error of 1e-7; 0 below the smallest normal number. NaN stays NaN. */
static inline float16 power_of_two(float16 x)
{
    const float16 within = select(x, (float16)(-126.f), x < -126.f);
    const float16 whole = rint(within), part = within - whole;
    float16 y = FV_MAD(part, (float16)(0.00015353359f), (float16)(0.0013398875f));
    y = FV_MAD(y, part, (float16)(0.00961843692f));
    y = FV_MAD(y, part, (float16)(0.0555033237f));
    y = FV_MAD(y, part, (float16)(0.240226477f));
    y = FV_MAD(y, part, (float16)(0.693147182f));
    y = FV_MAD(y, part, (float16)(1.f));
    y = as_float16(as_int16(y) + (convert_int16(whole) << 23));
    return select(y, (float16)(0.f), x < -126.f);
}

/* What is added to the scores of key j: a window's bias, or relative positions; and what is
 * subtracted where the key's region is another than the query's. */
#if ADDS
static inline float16 added_to_scores(OPERANDS, span s, uint j)
{
    const uint key = min(j, dim.s3 - 1);
    float added[LANES];
    for (uint i = 0; i < LANES; i++) {
        const uint query = min(s.begin + i, s.last);
        added[i] = 0.f;
#if FV_REL_POS
        added[i] += RELATIVE(s, query - s.begin, key);
#elif FV_WINDOW && FV_HAS3
        added[i] += FV_GET(3, FV_AT(3, get_group_id(1) * dim.s3 + query) + key);
#endif
#if FV_REGIONS
        global const uint *region = table + row0 + s.base;
        added[i] -= region[query] != region[key] ? 100.f : 0.f;
#endif
    }
    return LOG2_E * vload16(0, added);
}
#endif

/* The scores of key j from its products; -INFINITY for queries that do not attend to it. */
static inline float16 scores_of(OPERANDS, float16 products, span s, uint j)
{
    float16 scores = products * (f.s0 * LOG2_E);
#if ADDS
    scores += added_to_scores(OPERANDS_GIVEN, s, j);
#endif
    if (j >= s.end)
        scores = (float16)(-INFINITY);
    if (FV_FLAGS & FV_FLAG_CAUSAL)
        scores = select(scores, (float16)(-INFINITY), j > row0 + s.begin + LANE);
    return scores;
}

/* Copies a row of `n` channels as floats. */
#define COPY_CHANNELS(operand, to, row, n)                                                         \
    do {                                                                                           \
        uint c_ = 0;                                                                               \
        for (; c_ + 8 <= (n); c_ += 8)                                                             \
            vstore8(FV_GET8(operand, (row) + c_), 0, (to) + c_);                                   \
        for (; c_ < (n); c_++)                                                                     \
            (to)[c_] = FV_GET(operand, (row) + c_);                                                \
    } while (0)

/* Computes the scores of a tile's keys, as [KEYS][LANES], from q [FV_D][LANES]. Returns the largest
 * of them and of `high`. */
static inline float16 score_keys(OPERANDS, float *scores, const float *q, float16 high, span s,
                                 uint from, uint n)
{
    float keys[KEYS * FV_D];
    for (uint j = 0; j < KEYS; j++)
        COPY_CHANNELS(1, keys + j * FV_D,
                      FV_AT(1, s.base + min(from + j, s.end - 1)) + get_group_id(1) * FV_D, FV_D);
    for (uint j = 0; j < n; j += RUN) {
        float16 products[RUN];
        FV_TIMES(i, RUN)
            products[i] = (float16)(0.f);
        FV_LOOP(c, FV_D) {
            const float16 query = vload16(c, q);
            FV_TIMES(i, RUN)
                products[i] = FV_MAD((float16)(keys[(j + i) * FV_D + c]), query, products[i]);
        }
        FV_TIMES(i, RUN) {
            const float16 x = scores_of(OPERANDS_GIVEN, products[i], s, from + j + i);
            vstore16(x, j + i, scores);
            high = fmax(high, x);
        }
    }
    return high;
}

/* o [VALUES][LANES] = fade o + P V, where P is `weights` [KEYS][LANES]. */
static inline void add_values(OPERANDS, float *o, const float *weights, float16 fade, span s,
                              uint from, uint n)
{
    float values[KEYS * VALUES];
    for (uint j = 0; j < n; j++) {
        COPY_CHANNELS(2, values + j * VALUES, FV_AT(2, s.base + from + j) + get_group_id(1) * FV_DV,
                      FV_DV);
        for (uint c = FV_DV; c < VALUES; c++)
            values[j * VALUES + c] = 0.f;
    }
    for (uint c = 0; c < VALUES; c += RUN) {
        float16 sums[RUN];
        FV_TIMES(i, RUN)
            sums[i] = vload16(c + i, o) * fade;
        FV_LOOP(j, n) {
            const float16 weight = vload16(j, weights);
            FV_TIMES(i, RUN)
                sums[i] = FV_MAD((float16)(values[j * VALUES + c + i]), weight, sums[i]);
        }
        FV_TIMES(i, RUN)
            vstore16(sums[i], c + i, o);
    }
}

FV_KERNEL void ATTENTION(OPERANDS)
{
    const span s = SPAN(LANES);
    float q[FV_D * LANES], weights[KEYS * LANES], o[VALUES * LANES], sums[LANES];
    float16 top = (float16)(-INFINITY), sum = (float16)(0.f);
    for (uint i = 0; i < LANES; i++) {
        global const FV_CELL(0) *query = FV_AT(0, query_row(s, i)) + get_group_id(1) * FV_D;
        for (uint c = 0; c < FV_D; c++)
            q[c * LANES + i] = FV_GET(0, query + c);
    }
    for (uint c = 0; c < VALUES; c++)
        vstore16((float16)(0.f), c, o);
    for (uint from = 0; from < s.end; from += KEYS) {
        const uint n = min(s.end - from, (uint)KEYS);
        const float16 high = score_keys(OPERANDS_GIVEN, weights, q, top, s, from, n);
        const float16 fade = select(power_of_two(top - high), (float16)(1.f), top == high);
        top = high;
        sum *= fade;
        for (uint j = 0; j < n; j++) {
            const float16 weight = power_of_two(vload16(j, weights) - high);
            vstore16(weight, j, weights);
            sum += weight;
        }
        add_values(OPERANDS_GIVEN, o, weights, fade, s, from, n);
    }
    vstore16(sum, 0, sums);
    for (uint i = 0; i < LANES && is_query(s, i); i++) {
        global FV_CELL(OUT) *out = FV_AT(OUT, query_row(s, i)) + get_group_id(1) * FV_DV;
        for (uint c = 0; c < FV_DV; c++)
            FV_PUT(OUT, out + c, o[c * LANES + i] / sums[i]);
    }
}
