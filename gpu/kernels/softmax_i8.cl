/* softmax_i8.cl: softmax attention with products of 8-bit integers, for a block of queries with
 * online statistics, by tiles of KEYS keys. It serves SOFTMAX over all keys and, with FV_WINDOW,
 * WSOFTMAX inside windows of rows. src/ops/ref/ref_softmax.c defines the results.
 *
 *   quantise_queries   a pre-pass: numbers and a scale for each query and head
 *   lay_keys           a pre-pass: keys and values in tiles. SOFTMAX takes those that KEYS_I8 has
 *                      written; those of a window are quantised here, as KEYS_I8 would do it
 *   softmax, wsoftmax
 *
 * Queries, keys and channels are distributed over work-items as in softmax_tiles.cl, except that
 * keys come in fours. For every tile
 *
 *     S = Q K^T in whole numbers, times the scales   an item has MINE fours of keys for 4 queries
 *     t = max S, P = 2^(S - t), a byte each
 *     m' = max(m, t), l = 2^(m - m') l + 2^(t - m') sum P
 *     O = 2^(m - m') O + 2^(t - m') P V              and then QUADS quads of channels
 *
 * A tile has its own maximum, so that its weights use all eight bits wherever the largest score is;
 * l sums unrounded weights. Since products are of signed bytes on every device, the bytes of P are
 * stored minus 128, and sums begin with 128 times the sum of the tile's values.
 *
 * FV_D, FV_DV  width of a head's keys and values
 * FV_STAGE     1: queries, keys and values go through local memory, where it beats the cache
 * FV_REL_POS   1 with relative positions
 */
#include "gpu/kernels/dots.cl"
#include "gpu/kernels/int8_numbers.cl"
#include "gpu/kernels/row_top.cl"
#include "gpu/kernels/softmax_block.cl"
#include "gpu/kernels/softmax_common.cl"

#define KEYS 64          /* of a tile: FV_SOFTMAX_BLOCK */
#define FOURS (KEYS / 4) /* of them */
#define MINE (FOURS / ACROSS)

/* ---- the scratch, in words of 4 bytes ---- */

/* Runs of 16 numbers in a query or key; the last one is filled up with zeros. */
#define RUNS ((FV_D + 15) / 16)
#define COLUMNS ((FV_DV + 3) / 4 * 4) /* columns of the values, filled up with zeros */
#define TILES ((dim.s3 + KEYS - 1) / KEYS)

/* Layout of a tile: numbers of its keys; their scales; 128 times the sum of each column; the
 * values, with four keys in a word. Key 4 f + i is at i FOURS + f, so that neighbouring work-items,
 * which have neighbouring fours, read neighbours. */
#define SCALES_AT (KEYS * RUNS * 4)
#define SUMS_AT (SCALES_AT + KEYS)
#define VALUES_AT (SUMS_AT + COLUMNS)
#define TILE_WORDS (VALUES_AT + FOURS * COLUMNS)

/* Layout of a head, for each window: the scales of its columns and its tiles. If keys are quantised
 * here, also the mean key, and the inverse scales of columns and keys. */
#define MEAN_AT (COLUMNS + TILES * TILE_WORDS)
#define INVERSE_SCALES_AT (MEAN_AT + 16 * RUNS)
#define KEY_INVERSE_SCALES_AT (INVERSE_SCALES_AT + COLUMNS)
#define HEAD_WORDS (FV_WINDOW ? KEY_INVERSE_SCALES_AT + TILES * KEYS : MEAN_AT)

#define HEADS get_num_groups(1)
#define WINDOWS (FV_WINDOW ? rows / dim.s3 : 1)
#define HEAD_OF(window)                                                                            \
    ((global uint *)table + ((size_t)(window)*HEADS + get_group_id(1)) * HEAD_WORDS)

/* After all heads: the queries of each head, then the scales of each head. */
#define QUERIES ((global uint *)table + (size_t)WINDOWS * HEADS * HEAD_WORDS)
#define QUERY_OF(r) (QUERIES + ((size_t)get_group_id(1) * rows + (r)) * (RUNS * 4))
#define QUERY_SCALES                                                                               \
    ((global float *)(QUERIES + (size_t)HEADS * rows * (RUNS * 4)) + (size_t)get_group_id(1) * rows)

/* ---- pre-passes ---- */

/* Neighbouring work-items quantise the runs of a query. */
FV_KERNEL void quantise_queries(OPERANDS)
{
    const uint shift = fv_spread_bits(RUNS), lanes = 1u << shift;
    const uint me = get_local_id(0) & (lanes - 1);
    const uint own = get_group_id(0) * ((uint)FV_GROUP >> shift) + (get_local_id(0) >> shift);
    const uint r = min(own, rows - 1), end = own < rows ? RUNS : 0;
    global const FV_CELL(0) *q = FV_AT(0, r) + get_group_id(1) * FV_D;
    uint top = 0;
    for (uint i = me; i < end; i += lanes)
        top = max(top, fv_top(fv_get_some(q + 16 * i, (int)FV_D - (int)(16 * i))));
    FV_SHARE_TOP(top, me, lanes);
    const float2 scale = fv_scale_of(top);
    for (uint i = me; i < end; i += lanes) {
        const float16 x = fv_get_some(q + 16 * i, (int)FV_D - (int)(16 * i)) * scale.s1;
        FV_STORE4(scale.s1 > 0.f ? fv_whole16(x) : (uint4)(0), QUERY_OF(r) + 4 * i);
    }
    if (me == 0 && own < rows)
        QUERY_SCALES[r] = scale.s0;
}

/* The original keys and values of a head, and the inverse scales that quantise them. */
typedef struct source {
#if FV_WINDOW
    global const FV_CELL(1) *k;
    global const FV_CELL(2) *v;
    uint ld_k, ld_v;
    global float *mean, *inverse, *key_inverse;
#else
    global const uchar *k, *v;
#endif
} source;

#if FV_WINDOW
static inline float4 key_less_mean(const source *s, uint j, uint c)
{
    return FV_GET_RUN(1, s->k + (size_t)j * s->ld_k + c, (int)FV_D - (int)c, 0.f) -
           FV_LOAD4(s->mean + c);
}

/* The quantised numbers [c, c + 4) of key j. */
static inline uint key_word(const source *s, uint j, uint c)
{
    const float by = s->key_inverse[j];
    return by > 0.f ? fv_whole4(key_less_mean(s, j, c) * by) : 0;
}

/* The quantised number c of value j, in the low bits. */
static inline uint value_byte(const source *s, uint j, uint c)
{
    const float by = s->inverse[c], x = FV_GET(2, s->v + (size_t)j * s->ld_v + c);
    return by > 0.f ? (uint)convert_int(rint(x * by)) & 255 : 0;
}

/* Computes the mean of n keys, adding them in order, and the scales of the values. All work-items
 * have the same number of iterations; those without a channel compute the last one. */
static inline void find_channels(const source *s, global float *scale, uint n)
{
    for (uint from = 0; from < 16 * RUNS; from += FV_GROUP) {
        const uint c = from + get_local_id(0);
        global const FV_CELL(1) *k = s->k + min(c, (uint)FV_D - 1);
        float sum = 0.f;
        for (uint j = 0; j < n; j++, k += s->ld_k)
            sum += FV_GET(1, k);
        sum = fv_quotient(sum, (float)n);
        if (c < 16 * RUNS)
            s->mean[c] = c < FV_D ? sum : 0.f;
    }
    for (uint from = 0; from < COLUMNS; from += FV_GROUP) {
        const uint c = from + get_local_id(0);
        global const FV_CELL(2) *v = s->v + min(c, (uint)FV_DV - 1);
        uint top = 0;
        for (uint j = 0; j < n; j++, v += s->ld_v)
            top = max(top, as_uint(fabs(FV_GET(2, v))));
        const float2 found = fv_scale_of(top);
        if (c < COLUMNS) {
            scale[c] = c < FV_DV ? found.s0 : 0.f;
            s->inverse[c] = c < FV_DV ? found.s1 : 0.f;
        }
    }
}

/* (scale, its inverse) of key j. */
static inline float2 find_key(const source *s, uint j)
{
    uint top = 0;
    for (uint c = 0; c < FV_D; c += 4) {
        const uint4 bits = as_uint4(fabs(key_less_mean(s, j, c)));
        top = max(top, max(max(bits.s0, bits.s1), max(bits.s2, bits.s3)));
    }
    return fv_scale_of(top);
}
#else
static inline uint key_word(const source *s, uint j, uint c)
{
    global const uchar *k = s->k + (size_t)j * FV_D + c;
#if FV_D % 4 == 0
    return *(global const uint *)k;
#else
    uint word = 0;
    for (uint i = 0; i < min(FV_D - c, 4u); i++)
        word |= (uint)k[i] << 8 * i;
    return word;
#endif
}

static inline uint value_byte(const source *s, uint j, uint c)
{
    return s->v[(size_t)j * FV_DV + c];
}
#endif

/* Writes a tile of n keys from `first` on. */
static inline void lay_tile(global uint *to, const source *s, uint first, uint n)
{
    for (uint i = get_local_id(0); i < KEYS * RUNS * 4; i += FV_GROUP) {
        const uint at = i / (RUNS * 4), c = i % (RUNS * 4) * 4;
        const uint j = at % FOURS * 4 + at / FOURS;
        to[i] = j < n && c < FV_D ? key_word(s, first + j, c) : 0;
    }
    for (uint from = 0; from < COLUMNS; from += FV_GROUP) {
        const uint c = from + get_local_id(0), at = min(c, (uint)FV_DV - 1);
        int sum = 0;
        for (uint f = 0; f < FOURS; f++) {
            uint word = 0;
            FV_TIMES(i, 4)
                if (4 * f + i < n && c < FV_DV)
                    word |= value_byte(s, first + 4 * f + i, at) << 8 * i;
            if (c < COLUMNS)
                to[VALUES_AT + f * COLUMNS + c] = word;
            sum = FV_DOT4(word, 0x01010101u, sum);
        }
        if (c < COLUMNS)
            to[SUMS_AT + c] = (uint)(128 * sum);
    }
}

#if FV_WINDOW
/* A work-group lays out a window of a head. */
FV_KERNEL void lay_keys(OPERANDS)
{
    const uint n = dim.s3, row = get_group_id(0) * n, head = get_group_id(1);
    global uint *to = HEAD_OF(get_group_id(0));
    source s = {FV_AT(1, row) + head * FV_D,
                FV_AT(2, row) + head * FV_DV,
                at1.y,
                at2.y,
                (global float *)to + MEAN_AT,
                (global float *)to + INVERSE_SCALES_AT,
                (global float *)to + KEY_INVERSE_SCALES_AT};
    find_channels(&s, (global float *)to, n);
    FV_STATE_BARRIER();
    to += COLUMNS;
    for (uint from = 0; from < TILES * KEYS; from += FV_GROUP) {
        const uint j = from + get_local_id(0);
        const float2 found = find_key(&s, min(j, n - 1));
        if (j < TILES * KEYS) {
            ((global float *)(to + j / KEYS * TILE_WORDS))[SCALES_AT + j % KEYS] =
                j < n ? found.s0 : 0.f;
            s.key_inverse[j] = found.s1;
        }
    }
    FV_STATE_BARRIER();
    for (uint j = 0; j < n; j += KEYS)
        lay_tile(to + j / KEYS * TILE_WORDS, &s, j, min(n - j, (uint)KEYS));
}
#else
/* A work-group lays out a tile of a head. */
FV_KERNEL void lay_keys(OPERANDS)
{
    const uint n = dim.s3, key0 = get_group_id(0) * KEYS;
    global uint *head = HEAD_OF(0), *to = head + COLUMNS + get_group_id(0) * TILE_WORDS;
    global const uchar *row = FV_AT(1, get_group_id(1));
    global const uint *value_scales = (global const uint *)row;
    global const uint *scales = value_scales + FV_DV;
    source s;
    s.k = (global const uchar *)(scales + 2 * n);
    s.v = s.k + (size_t)n * FV_D;
    for (uint c = get_local_id(0); get_group_id(0) == 0 && c < COLUMNS; c += FV_GROUP)
        head[c] = c < FV_DV ? value_scales[c] : 0;
    for (uint j = get_local_id(0); j < KEYS; j += FV_GROUP)
        to[SCALES_AT + j] = key0 + j < n ? scales[key0 + j] : 0;
    lay_tile(to, &s, key0, min(n - key0, (uint)KEYS));
}
#endif

/* ---- a tile ---- */

/* DEPTH: runs that are staged at a time. The pitch of staged rows avoids bank conflicts. */
#define DEPTH (RUNS < 4 ? RUNS : 4)
#define PITCH (DEPTH / 2 * 2 + 1)
#define SLABS ((RUNS + DEPTH - 1) / DEPTH)
#if KEYS * PITCH > FOURS * SLICE / 4
#define STAGED_VECTORS (KEYS * PITCH)
#else
#define STAGED_VECTORS (FOURS * SLICE / 4)
#endif

/* The local memory of a work-group: maxima; bytes of P, with four keys in a word, for four queries
 * each; runs of the queries; runs of the tile's keys and, when these are no longer needed, its
 * values. */
typedef struct group_memory {
    float4 tops[ACROSS * DOWN];
    uint4 weights[FOURS * (DOWN + 1)];
#if STAGED
    uint4 q[BLOCK * PITCH], k[STAGED_VECTORS];
#endif
} group_memory;

/* A tile: keys [first, first + n), stored at `words` of the scratch. */
typedef struct tile {
    global const uint *words;
    uint first, n;
} tile;

#define KEY_RUN(at, c) FV_LOAD4(t.words + ((at)*RUNS + (c)) * 4)
#define VALUE_WORDS(f, c) FV_LOAD4(t.words + VALUES_AT + (f)*COLUMNS + (c))

static inline int dot_run(uint4 a, uint4 b, int sum)
{
    sum = FV_DOT4(a.s0, b.s0, sum);
    sum = FV_DOT4(a.s1, b.s1, sum);
    sum = FV_DOT4(a.s2, b.s2, sum);
    return FV_DOT4(a.s3, b.s3, sum);
}

/* Adds the products of the runs of four queries and that of a key. */
static inline int4 products(const uint4 *q, uint4 k, int4 sum)
{
    return (int4)(dot_run(q[0], k, sum.s0), dot_run(q[1], k, sum.s1), dot_run(q[2], k, sum.s2),
                  dot_run(q[3], k, sum.s3));
}

/* The position in the tile of key i of the work-item's 4 MINE keys; and the key's number in the
 * tile. */
#define PLACE_OF(i) ((i) % 4 * FOURS + get_local_id(0) % ACROSS + ACROSS * ((i) / 4))
#define KEY_OF(i) (4 * (get_local_id(0) % ACROSS + ACROSS * ((i) / 4)) + (i) % 4)

#if STAGED
/* Stages runs [c0, c0 + DEPTH) of the group's queries and of the tile's keys. */
static inline void stage_runs(OPERANDS, local group_memory *m, span s, tile t, uint c0)
{
    for (uint i = get_local_id(0); i < BLOCK * DEPTH; i += FV_GROUP) {
        const uint c = min(c0 + i % DEPTH, (uint)RUNS - 1);
        m->q[i / DEPTH * PITCH + i % DEPTH] = FV_LOAD4(QUERY_OF(query_row(s, i / DEPTH)) + 4 * c);
    }
    for (uint i = get_local_id(0); i < KEYS * DEPTH; i += FV_GROUP) {
        const uint c = min(c0 + i % DEPTH, (uint)RUNS - 1);
        m->k[i / DEPTH * PITCH + i % DEPTH] = KEY_RUN(i / DEPTH, c);
    }
}

/* Stages the group's slice of the tile's values. */
static inline void stage_values(local group_memory *m, tile t)
{
    for (uint i = get_local_id(0); i < FOURS * SLICE / 4; i += FV_GROUP) {
        const uint c = get_group_id(2) * SLICE + i % (SLICE / 4) * 4;
        m->k[i] = VALUE_WORDS(i / (SLICE / 4), min(c, (uint)COLUMNS - 4));
    }
}
#endif

/* Computes Q K^T for this row's four queries and the work-item's keys of the tile, as [4 MINE]. */
static inline void multiply_keys(OPERANDS, int4 *sums, SHARED group_memory *m, span s, tile t)
{
    const uint mine = 4 * (get_local_id(0) / ACROSS);
    uint4 q[4];
    FV_TIMES(i, 4 * MINE)
        sums[i] = 0;
#if STAGED
    FV_LOOP(slab, SLABS) {
        FV_BARRIER();
        stage_runs(OPERANDS_GIVEN, m, s, t, slab * DEPTH);
        FV_BARRIER();
        FV_LOOP(c, min((uint)RUNS - slab * DEPTH, (uint)DEPTH)) {
            FV_TIMES(r, 4)
                q[r] = m->q[(mine + r) * PITCH + c];
            FV_TIMES(i, 4 * MINE)
                sums[i] = products(q, m->k[PLACE_OF(i) * PITCH + c], sums[i]);
        }
    }
#else
    FV_LOOP(c, RUNS) {
        FV_TIMES(r, 4)
            q[r] = FV_LOAD4(QUERY_OF(query_row(s, mine + r)) + 4 * c);
        FV_TIMES(i, 4 * MINE)
            sums[i] = products(q, KEY_RUN(PLACE_OF(i), c), sums[i]);
    }
#endif
}

/* The scores of this row's four queries for key j of the tile; `by`: the queries' scales. */
static inline float4 score_of(OPERANDS, int4 product, float4 by, span s, tile t, uint j)
{
    const float scale = ((global const float *)t.words)[SCALES_AT + j];
    float4 score = convert_float4(product) * (by * scale);
#if FV_REL_POS
    const uint query = 4 * (get_local_id(0) / ACROSS), key = min(t.first + j, dim.s3 - 1);
    score += LOG2_E * (float4)(RELATIVE(s, query, key), RELATIVE(s, query + 1, key),
                               RELATIVE(s, query + 2, key), RELATIVE(s, query + 3, key));
#endif
    return j < t.n ? score : (float4)(-INFINITY);
}

/* What the sums of previous tiles are multiplied by, and what those of this tile are. */
typedef struct shares {
    float4 fade, rise;
} shares;

/* 2^(x - top); 1 if both are the same infinity. */
static inline float4 share_of(float4 x, float4 top)
{
    return select(exp2(x - top), (float4)1.f, x == top);
}

/* Finds the largest score of each query in the tile. */
static inline float4 share_top(SHARED group_memory *m, float4 high)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    m->tops[x * DOWN + y] = high;
    FV_BARRIER();
    for (uint i = 0; i < ACROSS; i++)
        high = fmax(high, m->tops[i * DOWN + y]);
    return high;
}

/* Replaces m by m' in `top`, updates l of the work-item's keys in `sum`, and stores P [FOURS][DOWN
 * + 1]. `high`: the tile's maxima. */
static inline shares weigh(SHARED group_memory *m, const float4 *scores, float4 high, float4 *top,
                           float4 *sum)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    const float4 most = fmax(*top, high);
    const shares out = {share_of(*top, most), share_of(high, most)};
    float4 add = 0.f;
    FV_TIMES(i, MINE) {
        float4 p[4];
        FV_TIMES(k, 4) {
            const float4 w = exp2(scores[4 * i + k] - high);
            add += w;
            p[k] = w * 255.f - 128.f;
        }
        m->weights[(x + ACROSS * i) * (DOWN + 1) + y] =
            (uint4)(fv_whole4((float4)(p[0].s0, p[1].s0, p[2].s0, p[3].s0)),
                    fv_whole4((float4)(p[0].s1, p[1].s1, p[2].s1, p[3].s1)),
                    fv_whole4((float4)(p[0].s2, p[1].s2, p[2].s2, p[3].s2)),
                    fv_whole4((float4)(p[0].s3, p[1].s3, p[2].s3, p[3].s3)));
    }
    *top = most;
    *sum = *sum * out.fade + add * out.rise;
    return out;
}

/* The first value channel of the work-item's quad i. */
static inline uint channel_of(uint i)
{
    return get_group_id(2) * SLICE + 4 * (get_local_id(0) % ACROSS + ACROSS * i);
}

/* O = fade O + rise P V for four queries and the tile's keys. */
static inline void add_values(float4 o[4][QUADS], SHARED const group_memory *m, shares by, tile t)
{
    const uint y = get_local_id(0) / ACROSS;
    FV_TIMES(i, QUADS) {
        const uint c = min(channel_of(i), (uint)COLUMNS - 4);
        const uint4 begin = FV_LOAD4(t.words + SUMS_AT + c);
        int4 acc[4];
        FV_TIMES(r, 4)
            acc[r] = convert_int4(begin);
        FV_LOOP(f, (t.n + 3) / 4) {
            const uint4 p = m->weights[f * (DOWN + 1) + y];
#if STAGED
            const uint4 v = m->k[f * (SLICE / 4) + get_local_id(0) % ACROSS + ACROSS * i];
#else
            const uint4 v = VALUE_WORDS(f, c);
#endif
            acc[0] = fv_dots4(p.s0, v, acc[0]);
            acc[1] = fv_dots4(p.s1, v, acc[1]);
            acc[2] = fv_dots4(p.s2, v, acc[2]);
            acc[3] = fv_dots4(p.s3, v, acc[3]);
        }
        o[0][i] = o[0][i] * by.fade.s0 + convert_float4(acc[0]) * by.rise.s0;
        o[1][i] = o[1][i] * by.fade.s1 + convert_float4(acc[1]) * by.rise.s1;
        o[2][i] = o[2][i] * by.fade.s2 + convert_float4(acc[2]) * by.rise.s2;
        o[3][i] = o[3][i] * by.fade.s3 + convert_float4(acc[3]) * by.rise.s3;
    }
}

/* Attends to a tile. */
static inline void attend(OPERANDS, float4 o[4][QUADS], float4 *top, float4 *sum,
                          SHARED group_memory *m, float4 by, span s, tile t)
{
    int4 sums[4 * MINE];
    float4 scores[4 * MINE], high = -INFINITY;
    multiply_keys(OPERANDS_GIVEN, sums, m, s, t);
    FV_TIMES(i, 4 * MINE) {
        scores[i] = score_of(OPERANDS_GIVEN, sums[i], by, s, t, KEY_OF(i));
        high = fmax(high, scores[i]);
    }
    high = share_top(m, high);
#if STAGED
    stage_values(m, t);
#endif
    const shares part = weigh(m, scores, high, top, sum);
    FV_BARRIER();
    add_values(o, m, part, t);
}

/* Writes O / l of this row's queries. Each work-item has summed l for its keys. */
static inline void write_rows(OPERANDS, float4 o[4][QUADS], SHARED group_memory *m, float4 sum,
                              span s, global const float *scales)
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    FV_BARRIER();
    m->tops[x * DOWN + y] = sum;
    FV_BARRIER();
    sum = 0.f;
    for (uint i = 0; i < ACROSS; i++)
        sum += m->tops[i * DOWN + y];
    sum *= 255.f;
    FV_TIMES(r, 4) {
        const float part = r == 0 ? sum.s0 : r == 1 ? sum.s1 : r == 2 ? sum.s2 : sum.s3;
        FV_TIMES(i, QUADS) {
            const uint c = channel_of(i);
            if (c >= FV_DV || !is_query(s, 4 * y + r))
                continue;
            global FV_CELL(OUT) *out =
                FV_AT(OUT, query_row(s, 4 * y + r)) + get_group_id(1) * FV_DV + c;
            FV_PUT_RUN(OUT, out, o[r][i] / part * FV_LOAD4(scales + c), (int)FV_DV - (int)c);
        }
    }
}

FV_KERNEL void ATTENTION(OPERANDS)
{
    SHARED_VAR group_memory memory;
    SHARED group_memory *m = &memory;
    const span s = SPAN(BLOCK);
    global const uint *head = HEAD_OF(s.base / dim.s3);
    float4 by, top = -INFINITY, sum = 0.f, o[4][QUADS];
    const uint mine = 4 * (get_local_id(0) / ACROSS);
    by = (float4)(QUERY_SCALES[query_row(s, mine)], QUERY_SCALES[query_row(s, mine + 1)],
                  QUERY_SCALES[query_row(s, mine + 2)], QUERY_SCALES[query_row(s, mine + 3)]) *
         (f.s0 * LOG2_E);
    FV_TIMES(i, QUADS)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;
    for (uint j = 0; j < s.end; j += KEYS) {
        const tile t = {head + COLUMNS + j / KEYS * TILE_WORDS, j, min(s.end - j, (uint)KEYS)};
        attend(OPERANDS_GIVEN, o, &top, &sum, m, by, s, t);
    }
    write_rows(OPERANDS_GIVEN, o, m, sum, s, (global const float *)head);
}
