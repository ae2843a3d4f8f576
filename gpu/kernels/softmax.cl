/* softmax.cl: softmax attention with online statistics: SOFTMAX over all keys and, with FV_WINDOW,
 * WSOFTMAX inside windows of rows.
 *
 * A work-group has a block of queries of one head and a slice of the value channels. Its items
 * stand in rows of ACROSS; a row has four queries. For every tile of keys
 *
 *     S = scale Q K^T     an item has MINE keys for its row's queries
 *     m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *     O = 2^(m - m') O + P V    and then QUADS quads of channels
 *
 * so that only maxima and P are exchanged, and only inside a row. S comes with log2(e).
 *
 * FV_D, FV_DV  width of a head's keys and values
 * FV_STAGE     1: queries and keys go through local memory, where it is faster than the cache
 * FV_REGIONS   WSOFTMAX: 1 with a table of regions
 */
#include "gpu/kernels/softmax_common.cl"

#define KEYS 32
#define SLICE 64 /* value channels */
#if FV_GROUP < 16
#define ACROSS FV_GROUP
#else
#define ACROSS 16
#endif
#define DOWN (FV_GROUP / ACROSS)
#define BLOCK (4 * DOWN) /* queries */
#define MINE (KEYS / ACROSS)
#define QUADS (SLICE / 4 / ACROSS)
#define STAGED (FV_STAGE && FV_GROUP > 1)
#define DEPTH 4 /* quads of channels staged at a time */
#define PITCH 5 /* of staged rows, without bank conflicts */

/* Channels c .. c + 3 of operand n in row r of this head, which has `width`; zeros behind them. */
#define QUAD(n, r, c, width)                                                                       \
    FV_GET_RUN(n, FV_AT(n, r) + get_group_id(1) * (width) + (c), (int)(width) - (int)(c), 0.f)

/* What a work-group has in its memory. */
typedef struct group_memory {
    float4 tops[ACROSS * DOWN], weights[KEYS * (DOWN + 1)]; /* maxima; P */
#if STAGED
    float4 q[BLOCK * PITCH], k[KEYS * PITCH]; /* DEPTH quads of channels */
#endif
} group_memory;

/* Products of four queries with one key. */
static inline float4 products(const float4 *q, float4 k)
{
    return (float4)(dot(q[0], k), dot(q[1], k), dot(q[2], k), dot(q[3], k));
}

#if STAGED
/* Channels [c0, c0 + 4 DEPTH) of the group's queries and of the keys from j0 on. */
static inline void stage_channels(OPERANDS, local group_memory *m, span s, uint j0, uint c0)
{
    for (uint i = get_local_id(0); i < BLOCK * DEPTH; i += FV_GROUP) {
        const uint r = min(s.begin + i / DEPTH, s.last), c = c0 + i % DEPTH * 4;
        m->q[i / DEPTH * PITCH + i % DEPTH] =
            c < FV_D ? QUAD(0, s.base + r, c, FV_D) : (float4)(0.f);
    }
    for (uint i = get_local_id(0); i < KEYS * DEPTH; i += FV_GROUP) {
        const uint j = min(j0 + i / DEPTH, s.end - 1), c = c0 + i % DEPTH * 4;
        m->k[i / DEPTH * PITCH + i % DEPTH] =
            c < FV_D ? QUAD(1, s.base + j, c, FV_D) : (float4)(0.f);
    }
}
#endif

/* Q K^T of this row's four queries, from `mine` on, and the work-item's keys of the tile at j0:
 * [MINE]. */
static inline void multiply_keys(OPERANDS, float4 *scores, SHARED group_memory *m, span s,
                                 uint mine, uint j0)
{
    const uint x = get_local_id(0) % ACROSS;
    float4 q[4];
    for (uint i = 0; i < MINE; i++)
        scores[i] = 0.f;
#if STAGED
    for (uint c0 = 0; c0 < FV_D; c0 += 4 * DEPTH) {
        FV_BARRIER();
        stage_channels(OPERANDS_GIVEN, m, s, j0, c0);
        FV_BARRIER();
        for (uint c = 0; c < DEPTH; c++) {
            for (uint t = 0; t < 4; t++)
                q[t] = m->q[(mine - s.begin + t) * PITCH + c];
            for (uint i = 0; i < MINE; i++)
                scores[i] += products(q, m->k[(x + ACROSS * i) * PITCH + c]);
        }
    }
#else
    for (uint c = 0; c < FV_D; c += 4) {
        for (uint t = 0; t < 4; t++)
            q[t] = QUAD(0, s.base + min(mine + t, s.last), c, FV_D);
        for (uint i = 0; i < MINE; i++)
            scores[i] +=
                products(q, QUAD(1, s.base + min(j0 + x + ACROSS * i, s.end - 1), c, FV_D));
    }
#endif
}

/* S from Q K^T of key j: scaled, with a window's bias and regions; -INFINITY where the query does
 * not attend to the key. */
static inline float4 score_of(OPERANDS, float4 product, span s, uint mine, uint j)
{
    float4 score = product * (f.s0 * LOG2_E);
#if FV_WINDOW
    const uint keys = dim.s3, k = min(j, keys - 1);
    const uint4 at = min(mine + (uint4)(0, 1, 2, 3), (uint4)(keys - 1));
#if FV_HAS3
    const uint row = get_group_id(1) * keys;
    score += LOG2_E *
             (float4)(FV_GET(3, FV_AT(3, row + at.s0) + k), FV_GET(3, FV_AT(3, row + at.s1) + k),
                      FV_GET(3, FV_AT(3, row + at.s2) + k), FV_GET(3, FV_AT(3, row + at.s3) + k));
#endif
#if FV_REGIONS
    global const uint *region = table + row0 + s.base;
    const uint4 own = (uint4)(region[at.s0], region[at.s1], region[at.s2], region[at.s3]);
    score -= select((float4)0.f, (float4)(100.f * LOG2_E), own != region[k]);
#endif
#endif
    if (j >= s.end)
        score = -INFINITY;
    if (FV_FLAGS & FV_FLAG_CAUSAL)
        score = select(score, (float4)-INFINITY, j > row0 + mine + (uint4)(0, 1, 2, 3));
    return score;
}

/* m' in place of m in `top`, l of the work-item's keys in `sum`, and P [KEYS][DOWN + 1]. Returns
 * 2^(m - m'). */
static inline float4 weigh(SHARED group_memory *m, const float4 *scores, float4 *top, float4 *sum)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    float4 high = *top;
    for (uint i = 0; i < MINE; i++)
        high = fmax(high, scores[i]);
    m->tops[x * DOWN + y] = high;
    FV_BARRIER();
    for (uint i = 0; i < ACROSS; i++)
        high = fmax(high, m->tops[i * DOWN + y]);
    const float4 fade = select(exp2(*top - high), (float4)1.f, *top == high);
    *top = high;
    *sum *= fade;
    for (uint i = 0; i < MINE; i++) {
        const float4 p = exp2(scores[i] - high);
        m->weights[(x + ACROSS * i) * (DOWN + 1) + y] = p;
        *sum += p;
    }
    FV_BARRIER();
    return fade;
}

/* The first value channel of the work-item's quad i. */
static inline uint channel_of(uint i)
{
    return get_group_id(2) * SLICE + 4 * (get_local_id(0) % ACROSS + ACROSS * i);
}

/* O = fade O + P V of four queries, with the n keys from `row` on. */
static inline void add_values(OPERANDS, float4 o[4][QUADS], SHARED const group_memory *m,
                              float4 fade, uint row, uint n)
{
    const uint y = get_local_id(0) / ACROSS;
    for (uint i = 0; i < QUADS; i++) {
        const uint c = channel_of(i);
        if (c >= FV_DV)
            continue;
        o[0][i] *= fade.s0;
        o[1][i] *= fade.s1;
        o[2][i] *= fade.s2;
        o[3][i] *= fade.s3;
        for (uint j = 0; j < n; j++) {
            const float4 p = m->weights[j * (DOWN + 1) + y], v = QUAD(2, row + j, c, FV_DV);
            o[0][i] += p.s0 * v;
            o[1][i] += p.s1 * v;
            o[2][i] += p.s2 * v;
            o[3][i] += p.s3 * v;
        }
    }
}

/* O / l of this row's queries. */
static inline void write_rows(OPERANDS, float4 o[4][QUADS], float4 sum, span s, uint mine)
{
    for (uint t = 0; t < 4 && mine + t <= s.last; t++) {
        const float part = t == 0 ? sum.s0 : t == 1 ? sum.s1 : t == 2 ? sum.s2 : sum.s3;
        for (uint i = 0; i < QUADS; i++) {
            const uint c = channel_of(i);
            global FV_CELL(OUT) *out = FV_AT(OUT, s.base + mine + t) + get_group_id(1) * FV_DV + c;
            if (c < FV_DV)
                FV_PUT_RUN(OUT, out, o[t][i] / part, (int)FV_DV - (int)c);
        }
    }
}

kernel void ATTENTION(OPERANDS)
{
    SHARED_ROOM group_memory memory;
    SHARED group_memory *m = &memory;
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    const span s = SPAN(BLOCK);
    const uint mine = s.begin + 4 * y; /* this row's first query */
    float4 top = -INFINITY, sum = 0.f, o[4][QUADS];
    for (uint i = 0; i < QUADS; i++)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;

    for (uint j0 = 0; j0 < s.end; j0 += KEYS) {
        float4 scores[MINE];
        multiply_keys(OPERANDS_GIVEN, scores, m, s, mine, j0);
        for (uint i = 0; i < MINE; i++)
            scores[i] = score_of(OPERANDS_GIVEN, scores[i], s, mine, j0 + x + ACROSS * i);
        const float4 fade = weigh(m, scores, &top, &sum);
        add_values(OPERANDS_GIVEN, o, m, fade, s.base + j0, min(s.end - j0, (uint)KEYS));
    }

    FV_BARRIER();
    m->tops[x * DOWN + y] = sum;
    FV_BARRIER();
    sum = 0.f;
    for (uint i = 0; i < ACROSS; i++)
        sum += m->tops[i * DOWN + y];
    write_rows(OPERANDS_GIVEN, o, sum, s, mine);
}
