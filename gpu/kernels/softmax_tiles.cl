/* softmax_tiles.cl: softmax attention of a block of queries with online statistics, by tiles of
 * KEYS keys.
 *
 * A work-group computes a block of queries of one head and a slice of the value channels. Its
 * work-items form rows of ACROSS; a row has four queries. For every tile of keys
 *
 *     S = scale Q K^T     an item has MINE keys for its row's queries
 *     m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *     O = 2^(m - m') O + P V    and then QUADS quads of channels
 *
 * so that only maxima and P are exchanged, and only within a row. S includes the factor log2(e).
 *
 * FV_D, FV_DV  width of a head's keys and values
 * FV_STAGE     1: queries and keys go through local memory, where it is faster than the cache
 *
 * The including file must define
 *
 *   span, query_row(s, r), is_query(s, r)
 *       the group's queries, and the row of query r, which may be any row where there is no query
 *   tile, KEY_QUAD(j, c), VALUE_QUAD(j, c)
 *       t.n keys, and a quad of channels of key j of tile t; beyond the last key, those of the last
 *   KEY_MEMORY
 *       local memory that the keys need
 *   score_of
 *       declared below
 */
#include "gpu/kernels/softmax_block.cl"

#define KEYS 32
#define MINE (KEYS / ACROSS)
#define DEPTH 4 /* quads of channels that are staged at a time */
#define PITCH 5 /* stride of staged rows, which avoids bank conflicts */

/* Channels c .. c + 3 of operand n in row r of this head, which has `width` channels; zeros
 * beyond. */
#define QUAD(n, r, c, width)                                                                       \
    FV_GET_RUN(n, FV_AT(n, r) + get_group_id(1) * (width) + (c), (int)(width) - (int)(c), 0.f)

/* The local memory of a work-group. */
typedef struct group_memory {
    float4 tops[ACROSS * DOWN], weights[KEYS * (DOWN + 1)]; /* maxima; P */
#if STAGED
    float4 q[BLOCK * PITCH], k[KEYS * PITCH]; /* DEPTH quads of channels */
#endif
    KEY_MEMORY
} group_memory;

/* Computes the scores of the row's four queries for key j of the tile from Q K^T: scaled, and with
 * everything that is added to them; -INFINITY if the query does not attend to the key. */
static inline float4 score_of(OPERANDS, float4 product, SHARED const group_memory *m, span s,
                              tile t, uint j);

/* Products of four queries with one key. */
static inline float4 products(const float4 *q, float4 k)
{
    return (float4)(dot(q[0], k), dot(q[1], k), dot(q[2], k), dot(q[3], k));
}

#if STAGED
/* Stages channels [c0, c0 + 4 DEPTH) of the group's queries and of the tile's keys. */
static inline void stage_channels(OPERANDS, local group_memory *m, span s, tile t, uint c0)
{
    for (uint i = get_local_id(0); i < BLOCK * DEPTH; i += FV_GROUP) {
        const uint c = c0 + i % DEPTH * 4;
        m->q[i / DEPTH * PITCH + i % DEPTH] =
            c < FV_D ? QUAD(0, query_row(s, i / DEPTH), c, FV_D) : (float4)(0.f);
    }
    for (uint i = get_local_id(0); i < KEYS * DEPTH; i += FV_GROUP) {
        const uint c = c0 + i % DEPTH * 4;
        m->k[i / DEPTH * PITCH + i % DEPTH] = c < FV_D ? KEY_QUAD(i / DEPTH, c) : (float4)(0.f);
    }
}
#endif

/* Computes Q K^T for this row's four queries and the work-item's keys of the tile, as [MINE]. */
static inline void multiply_keys(OPERANDS, float4 *scores, SHARED group_memory *m, span s, tile t)
{
    const uint x = get_local_id(0) % ACROSS, mine = 4 * (get_local_id(0) / ACROSS);
    float4 q[4];
    FV_TIMES(i, MINE)
        scores[i] = 0.f;
#if STAGED
    FV_LOOP(slab, (FV_D + 4 * DEPTH - 1) / (4 * DEPTH)) {
        const uint c0 = slab * 4 * DEPTH;
        FV_BARRIER();
        stage_channels(OPERANDS_GIVEN, m, s, t, c0);
        FV_BARRIER();
        for (uint c = 0; c < DEPTH; c++) {
            FV_TIMES(r, 4)
                q[r] = m->q[(mine + r) * PITCH + c];
            FV_TIMES(i, MINE)
                scores[i] += products(q, m->k[(x + ACROSS * i) * PITCH + c]);
        }
    }
#else
    FV_LOOP(quad, (FV_D + 3) / 4) {
        const uint c = 4 * quad;
        FV_TIMES(r, 4)
            q[r] = QUAD(0, query_row(s, mine + r), c, FV_D);
        FV_TIMES(i, MINE)
            scores[i] += products(q, KEY_QUAD(x + ACROSS * i, c));
    }
#endif
}

/* Replaces m by m' in `top`, updates l of the work-item's keys in `sum`, and stores P [KEYS][DOWN +
 * 1]. Returns 2^(m - m'). */
static inline float4 weigh(SHARED group_memory *m, const float4 *scores, float4 *top, float4 *sum)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    float4 high = *top;
    FV_TIMES(i, MINE)
        high = fmax(high, scores[i]);
    m->tops[x * DOWN + y] = high;
    FV_BARRIER();
    for (uint i = 0; i < ACROSS; i++)
        high = fmax(high, m->tops[i * DOWN + y]);
    const float4 fade = select(exp2(*top - high), (float4)1.f, *top == high);
    *top = high;
    *sum *= fade;
    FV_TIMES(i, MINE) {
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

/* O = fade O + P V for four queries and the tile's keys. */
static inline void add_values(OPERANDS, float4 o[4][QUADS], SHARED const group_memory *m,
                              float4 fade, tile t)
{
    const uint y = get_local_id(0) / ACROSS;
    FV_TIMES(i, QUADS) {
        const uint c = channel_of(i);
        if (c >= FV_DV)
            continue;
        o[0][i] *= fade.s0;
        o[1][i] *= fade.s1;
        o[2][i] *= fade.s2;
        o[3][i] *= fade.s3;
        FV_LOOP(j, t.n) {
            const float4 p = m->weights[j * (DOWN + 1) + y], v = VALUE_QUAD(j, c);
            o[0][i] += p.s0 * v;
            o[1][i] += p.s1 * v;
            o[2][i] += p.s2 * v;
            o[3][i] += p.s3 * v;
        }
    }
}

/* Attends to a tile. */
static inline void attend(OPERANDS, float4 o[4][QUADS], float4 *top, float4 *sum,
                          SHARED group_memory *m, span s, tile t)
{
    const uint x = get_local_id(0) % ACROSS;
    float4 scores[MINE];
    multiply_keys(OPERANDS_GIVEN, scores, m, s, t);
    FV_TIMES(i, MINE)
        scores[i] = score_of(OPERANDS_GIVEN, scores[i], m, s, t, x + ACROSS * i);
    const float4 fade = weigh(m, scores, top, sum);
    add_values(OPERANDS_GIVEN, o, m, fade, t);
}

/* Writes O / l of this row's queries. Each work-item has summed l for its keys. */
static inline void write_rows(OPERANDS, float4 o[4][QUADS], SHARED group_memory *m, float4 sum,
                              span s)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    FV_BARRIER();
    m->tops[x * DOWN + y] = sum;
    FV_BARRIER();
    sum = 0.f;
    for (uint i = 0; i < ACROSS; i++)
        sum += m->tops[i * DOWN + y];
    FV_TIMES(r, 4) {
        const float part = r == 0 ? sum.s0 : r == 1 ? sum.s1 : r == 2 ? sum.s2 : sum.s3;
        FV_TIMES(i, QUADS) {
            const uint c = channel_of(i);
            if (!is_query(s, 4 * y + r))
                continue;
            global FV_CELL(OUT) *out =
                FV_AT(OUT, query_row(s, 4 * y + r)) + get_group_id(1) * FV_DV + c;
            if (c < FV_DV)
                FV_PUT_RUN(OUT, out, o[r][i] / part, (int)FV_DV - (int)c);
        }
    }
}
