/* lattn.cl: linear attention with the features and the normalisation of one mechanism. The host
 * compiles one kernel at a time: FV_LATTN_REDUCE, FV_LATTN_MERGE, FV_LATTN_APPLY or FV_WLATTN.
 *
 * A work-group computes products tile by tile: FV_GI by FV_GJ work-items have FV_TM by FV_TN sums
 * each, in registers. Features of a few rows are computed once, and kept in local memory for all
 * work-items that need them. A group of a single work-item keeps them in private memory.
 *
 *   FV_GI, FV_GJ, FV_TM, FV_TN  the tile; FV_TM and FV_TN are 4 or 8
 *   FV_STAGE  1: the other operand, values or the state, is staged in local memory too, where that
 *             is faster than the cache
 *   FV_ROWS   REDUCE, WLATTN: rows whose features are kept, a power of two
 *   FV_SLAB   APPLY: features that are kept, of FV_GI * FV_TM rows
 *   FV_COLS   WLATTN: columns of the values that a group has
 */
#include "gpu/kernels/lattn_common.cl"

#define STAGED (FV_STAGE && FV_GROUP > 1)
/* Learned vectors are kept in their final form if there are few. */
#define KEPT (FV_PARAMS && FV_PARAMS * CHANNELS <= 1024)

#ifndef FV_LATTN_MERGE

#ifdef FV_WLATTN /* operands */
#define KEY 1
#define VALUE 2
#define PARAM 3
#else
#define KEY 0
#define VALUE 1
#define PARAM 2
#endif
#define CELL(n) FV_CELL(n)
#define GET(n, p) FV_GET(n, p)
#define STREAM(j) ((j) / (FV_DV / FV_STREAMS))  /* of value column j */
#define IN_STREAM (FV_DV / FV_STREAMS % 4 == 0) /* quads of columns are within one stream */

/* Learned vectors: the original ones, from FIRST_CHANNEL on, and those in their final form. */
typedef struct learned {
    global const CELL(PARAM) *raw;
    SHARED const float *kept;
    float alpha;
} learned;

FV_FN float finish(const learned *l, uint p, uint c)
{
    return fv_param(p, GET(PARAM, l->raw + p * FV_HEADS * FV_D + c), l->alpha);
}

/* The further arguments of phi for channel c, counted from FIRST_CHANNEL. */
FV_FN fv_row channel(const learned *l, uint c, float shift)
{
    fv_row r = fv_row_of(l->alpha);
    r.shift = shift;
    FV_TIMES(p, 2)
        r.param[p] = p >= FV_PARAMS ? 0.f : KEPT ? l->kept[p * CHANNELS + c] : finish(l, p, c);
    return r;
}

/* Computes the final form of the learned vectors; all work-items call it. A barrier must follow
 * before they are used. */
FV_FN void keep(SHARED float *kept, const learned *l)
{
    for (uint i = get_local_id(0); KEPT && i < FV_PARAMS * CHANNELS; i += FV_GROUP)
        kept[i] = finish(l, i / CHANNELS, i % CHANNELS);
}

/* Defines a function that all work-items call: it writes statistics of n rows of operand X to
 * stat[t * ROWS + row]. The rows have a stride of `ld`, and x is the first one at FIRST_CHANNEL.
 * `scratch` has the larger of FV_GROUP and ROWS floats. A row is reduced by a team of work-items.
 */
#define DEFINE_STATISTICS(name, X, COUNT, QUERY, ROWS)                                             \
    FV_FN void name(SHARED float *stat, SHARED float *scratch, global const FV_CELL(X) *x,         \
                    size_t ld, uint n, const learned *l, SHARED const float *shift)                \
    {                                                                                              \
        const uint team = FV_GROUP > ROWS ? FV_GROUP / ROWS : 1, lane = get_local_id(0) % team;    \
        for (uint begin = 0; begin < ROWS; begin += FV_GROUP / team) {                             \
            const uint row = begin + get_local_id(0) / team;                                       \
            fv_row done = fv_row_of(l->alpha);                                                     \
            FV_TIMES(t, COUNT) {                                                                   \
                const bool top = FV_STAT_MAX >> t & 1;                                             \
                float sum = top ? -INFINITY : 0.f;                                                 \
                for (uint c = lane; row < n && c < CHANNELS; c += team) {                          \
                    fv_row r = channel(l, c, SHIFTED ? shift[c] : 0.f);                            \
                    FV_TIMES(u, t)                                                                 \
                        r.stat[u] = done.stat[u];                                                  \
                    const float term = fv_stat(t, QUERY, FV_GET(X, x + row * ld + c), r);          \
                    sum = top ? fv_max(sum, term) : sum + term;                                    \
                }                                                                                  \
                if (team > 1) {                                                                    \
                    scratch[row * team + lane] = sum;                                              \
                    FV_BARRIER();                                                                  \
                    sum = scratch[row * team];                                                     \
                    for (uint i = 1; i < team; i++)                                                \
                        sum = top ? fv_max(sum, scratch[row * team + i])                           \
                                  : sum + scratch[row * team + i];                                 \
                    FV_BARRIER();                                                                  \
                }                                                                                  \
                done.stat[t] = sum;                                                                \
            }                                                                                      \
            done = fv_stats_done(QUERY, done);                                                     \
            FV_TIMES(t, COUNT)                                                                     \
                if (lane == 0)                                                                     \
                    stat[t * ROWS + row] = done.stat[t];                                           \
        }                                                                                          \
        FV_BARRIER();                                                                              \
    }

#ifndef FV_WLATTN
/* Rotates the pair (c, c + 1) of a token. */
FV_FN float2 turn(float2 x, global const CELL(3) *cosines, uint ldc, global const CELL(4) *sines,
                  uint lds, uint token, uint width, uint c)
{
    const bool second = width && c >= FV_D / 2;
    const uint row = !width ? token : second ? token % width : token / width;
    const size_t at = second ? c - FV_D / 2 : c;
    global const CELL(3) *co = cosines + (size_t)row * ldc + at;
    global const CELL(4) *si = sines + (size_t)row * lds + at;
    return (float2)(x.x * GET(3, co) - x.y * GET(4, si),
                    x.y * GET(3, co + 1) + x.x * GET(4, si + 1));
}
#define TURN(pair, token, c) turn(pair, base3 + at3.x, at3.y, base4 + at4.x, at4.y, token, u.s0, c)
#endif

/* Defines a function that all work-items call: computes features of n rows of operand X, with zeros
 * in the further rows up to ROWS. The rows have a stride of `ld`, and x is the head's first one.
 * The features are of `channels` channels from c0 on, in FV_BLOCKS blocks. That of a row, block b
 * and channel c is stored in feat[row * row_step + (b * channels + c) * channel_step]. */
#define DEFINE_FEATURES(name, X, COUNT, QUERY, ROWS)                                               \
    FV_FN void name(SHARED float *feat, uint channels, uint row_step, uint channel_step,           \
                    global const FV_CELL(X) *x, size_t ld, uint c0, uint n, const learned *l,      \
                    SHARED const float *shift, SHARED const float *stat)                           \
    {                                                                                              \
        SHARE_DOWN(i, n * channels) {                                                              \
            const uint row = i / channels, at = i % channels, c = c0 + at;                         \
            float out[FV_BLOCKS];                                                                  \
            FV_TIMES(b, FV_BLOCKS)                                                                 \
                out[b] = 0.f;                                                                      \
            if (c < FV_D) {                                                                        \
                fv_row r = channel(l, FV_STAT_WIDE ? get_group_id(1) * FV_D + c : c,               \
                                   SHIFTED ? shift[c] : 0.f);                                      \
                FV_TIMES(t, COUNT)                                                                 \
                    r.stat[t] = stat[t * ROWS + row];                                              \
                fv_phi(out, QUERY, FV_GET(X, x + row * ld + c), r);                                \
            }                                                                                      \
            FV_TIMES(b, FV_BLOCKS)                                                                 \
                feat[row * row_step + (b * channels + at) * channel_step] = out[b];                \
        }                                                                                          \
        for (uint i = n * channels + get_local_id(0); i < ROWS * channels; i += FV_GROUP)          \
            FV_TIMES(b, FV_BLOCKS)                                                                 \
                feat[i / channels * row_step + (b * channels + i % channels) * channel_step] =     \
                    0.f;                                                                           \
    }

#if !defined(FV_LATTN_APPLY)
#if FV_STATS_KEY
DEFINE_STATISTICS(key_statistics, KEY, FV_STATS_KEY, 0, FV_ROWS)
#endif
DEFINE_FEATURES(map_keys, KEY, FV_STATS_KEY, 0, FV_ROWS)

/* Computes the maxima of the head's channels over n keys; 0 if results are not normalised, since
 * then nothing would cancel the shift. */
FV_FN void key_shifts(SHARED float *shift, global const CELL(KEY) *k, size_t ld, uint n)
{
    for (uint c = get_local_id(0); SHIFT && c < FV_D; c += FV_GROUP) {
        float top = SHIFTED ? -FLT_MAX : 0.f;
        for (uint r = 0; SHIFTED && r < n; r++)
            top = fv_max(top, GET(KEY, k + r * ld + c));
        shift[c] = top;
    }
}

/* CENTRED: computes the means of `width` columns of n rows of values; `present` of the columns
 * exist. */
FV_FN void value_means(SHARED float *vmean, uint width, global const CELL(VALUE) *v, size_t ld,
                       uint n, uint present)
{
    const float share = 1.f / max(n, 1u);
    /* Adds sums of several terms, because a single chain of many equal terms would drift. */
    for (uint j = get_local_id(0); CENTRED && j < width; j += FV_GROUP) {
        float sum = 0.f;
        for (uint r = 0; j < present && r < n;) {
            float some = 0.f;
            for (const uint end = min(r + 32, n); r < end; r++)
                some += share * GET(VALUE, v + r * ld + j);
            sum += some;
        }
        vmean[j] = sum;
    }
}

/* Stores the values of n rows minus their means to [FV_ROWS][width], with zeros in further rows and
 * in columns from `present` on. */
FV_FN void tile_values(SHARED float *to, uint width, global const CELL(VALUE) *v, size_t ld, uint n,
                       uint present, SHARED const float *vmean)
{
    for (uint i = get_local_id(0); i < FV_ROWS * width; i += FV_GROUP) {
        const uint row = i / width, j = i % width;
        float value = 0.f;
        if (row < n && j < present) {
            value = GET(VALUE, v + row * ld + j);
            if (CENTRED)
                value -= vmean[j];
        }
        to[i] = value;
    }
}
#endif

#if !defined(FV_LATTN_REDUCE)
/* Computes the weights of a query's results, with a stride of `pitch`: one per stream, and with
 * CENTRED one for the values' means. They follow from z of every stream, w, and the largest
 * exponent of the row's features. */
FV_FN void set_weights(SHARED float *weight, uint pitch, const float *z, float w, float top,
                       float epsilon)
{
    float eps = fmax(epsilon, FLT_MIN);
    if (SHIFTED && epsilon > 0.f)
        eps = fmax(epsilon * exp(-top), FLT_MIN);
    FV_TIMES(t, FV_STREAMS)
        weight[t * pitch] = NORMALISED ? fv_norm(z[t], eps) : 1.f;
    if (CENTRED)
        weight[FV_STREAMS * pitch] = NORMALISED ? fv_norm_mean(z[0], w, eps) : w;
}
#endif

#if !defined(FV_WLATTN)
#define QUADS (FV_TN / 4)
/* Loops over the steps of a sum. If operands come from main memory, the loop is not unrolled: 64
 * registers, all that a work-item of Mali has, would not hold those of several iterations. */
#if STAGED
#define PRODUCTS(i, n) for (uint i = 0; i < (n); i++)
#else
#define PRODUCTS(i, n) FV_LOOP(i, n)
#endif
/* The first column, within the tile, of quad q for the work-items in column gj. */
#define COLUMN(q, gj) (4 * ((q)*FV_GJ + (gj)))

/* Loads the first `left` numbers of operand X at p, followed by zeros; all four if rows consist of
 * whole quads. */
#if FV_DV % 4 == 0
#define GET_QUAD(X, p, left) FV_GET4(X, p)
#define PUT_QUAD(X, p, x, left) FV_PUT4(X, p, x)
#else
#define GET_QUAD(X, p, left) FV_GET_RUN(X, p, left, 0.f)
#define PUT_QUAD(X, p, x, left) FV_PUT_RUN(X, p, x, left)
#endif

FV_FN void clear(float4 acc[FV_TM][QUADS])
{
    FV_TIMES(i, FV_TM)
        FV_TIMES(q, QUADS)
            acc[i][q] = 0.f;
}

/* Adds the products of FV_TM features, from `left` on, and quads of the other operand to a
 * work-item's sums. */
FV_FN void add_products(float4 acc[FV_TM][QUADS], SHARED const float *left, const float4 *right)
{
    FV_TIMES(i, FV_TM / 4) {
        const float4 x = *(SHARED const float4 *)(left + 4 * i);
        FV_TIMES(q, QUADS) {
            acc[4 * i][q] += x.s0 * right[q];
            acc[4 * i + 1][q] += x.s1 * right[q];
            acc[4 * i + 2][q] += x.s2 * right[q];
            acc[4 * i + 3][q] += x.s3 * right[q];
        }
    }
}
#endif

#endif

/* ---- REDUCE ---- */

#ifdef FV_LATTN_REDUCE

/* The tile of the state: features of TILE_CHANNELS channels by TJ value columns. */
#define TILE_CHANNELS (FV_GI * FV_TM / FV_BLOCKS)
#define TI (FV_GI * FV_TM)
#define TJ (FV_GJ * FV_TN)
#define TILES_I ((FV_D + TILE_CHANNELS - 1) / TILE_CHANNELS)
#define TILES_J ((FV_DV + TJ - 1) / TJ)
/* Tiles are processed in order if merging one into a state reads what other tiles write. */
#define SERIAL (CENTRED || SHIFT)
/* Features of the tile whose sum a work-item computes. */
#define OWN ((TI + FV_GROUP - 1) / FV_GROUP)

/* Factors that convert two sums whose exponents had different shifts to the larger shift. */
FV_FN float2 fades(float a, float b)
{
    const float top = fv_max(a, b);
    return (float2)(exp(a - top), exp(b - top));
}

#if GATED
/* Multiplies the features that map_keys has stored for n rows from r on by the rows' gates; each
 * work-item does this for the features that it has computed. */
FV_FN void gate_features(OPERANDS, SHARED float *feat, uint r, uint n)
{
    SHARE_DOWN(i, n * TILE_CHANNELS) {
        const uint row = i / TILE_CHANNELS, c = i % TILE_CHANNELS;
        const float gate = FV_GET(5, FV_AT(5, r + row) + get_group_id(1));
        for (uint b = 0; b < FV_BLOCKS; b++)
            feat[row * TI + b * TILE_CHANNELS + c] *= gate;
    }
}
#endif

#if TURNED
/* Rotates the features of n rows from r on, for channels from c0 on. */
FV_FN void turn_features(OPERANDS, SHARED float *feat, uint c0, uint r, uint n)
{
    SHARE_DOWN(x, n * (TI / 2)) {
        const uint row = x / (TI / 2), i = x % (TI / 2) * 2;
        const uint c = c0 + i % TILE_CHANNELS;
        if (c >= FV_D)
            continue;
        const float2 y =
            TURN((float2)(feat[row * TI + i], feat[row * TI + i + 1]), row0 + r + row, c);
        feat[row * TI + i] = y.x;
        feat[row * TI + i + 1] = y.y;
    }
}
#endif

/* Adds n rows of features [FV_ROWS][TI] to the work-item's sums. */
FV_FN void add_columns(float sums[OWN], SHARED const float *feat, uint n)
{
    const uint me = get_local_id(0);
    FV_TIMES(q, OWN) {
        const uint i = q * FV_GROUP + me;
        float sum = 0.f;
        for (uint row = 0; i < TI && row < n; row++)
            sum += feat[row * TI + i];
        sums[q] += sum;
    }
}

/* Writes the means of the tile's features to the state, and the shift and the rotated means that it
 * stores next to them. */
FV_FN void write_feature_means(OPERANDS, global FV_CELL(6) *state, const float m[OWN],
                               SHARED const float *turned_mean, SHARED const float *shift, uint c0)
{
    const uint me = get_local_id(0);
    FV_TIMES(q, OWN) {
        const uint i = q * FV_GROUP + me, c = c0 + i % TILE_CHANNELS;
        const uint row = i / TILE_CHANNELS * FV_D + c;
        if (i >= TI || c >= FV_D)
            continue;
        float x = f.s0 * m[q];
        if (!first) {
            float2 fade = (float2)(1.f);
            if (SHIFT)
                fade = fades(FV_GET(6, state + AT_SHIFT + c), shift[c]);
            x = fade.x * FV_GET(6, state + AT_M + row) + fade.y * x;
        }
        FV_PUT(6, state + AT_M + row, x);
        if (CENTRED)
            FV_PUT(6, state + AT_W + row,
                   turned_mean[i] + (first ? 0.f : FV_GET(6, state + AT_W + row)));
        if (SHIFT)
            FV_PUT(6, state + AT_SHIFT + c,
                   first ? shift[c] : fv_max(FV_GET(6, state + AT_SHIFT + c), shift[c]));
    }
}

/* Writes the means of the tile's values to the state; `rate`: the part's share of all rows. */
FV_FN void write_value_means(OPERANDS, global FV_CELL(6) *state, SHARED const float *vmean,
                             float rate, uint j0)
{
    const uint me = get_local_id(0);
    for (uint j = me; j < TJ; j += FV_GROUP) {
        if (j0 + j >= FV_DV)
            continue;
        const float old = first ? 0.f : FV_GET(6, state + AT_VMEAN + j0 + j);
        FV_PUT(6, state + AT_VMEAN + j0 + j, first ? vmean[j] : old + rate * (vmean[j] - old));
    }
}

/* Adds the work-item's products to the state, channels from c0 and columns from j0 on. CENTRED:
 * both are about different means so far. About the mean of all tokens S is S + u^T (vmean' -
 * vmean), with u = (n w' - n' w) / (n + n'), where `rate` is (n, n') / (n + n'). */
FV_FN void fold_products(OPERANDS, float4 acc[FV_TM][QUADS], global FV_CELL(6) *state,
                         SHARED const float *shift, SHARED const float *turned_mean,
                         SHARED const float *vmean, float2 rate, uint c0, uint j0)
{
    const uint gi = get_local_id(0) / FV_GJ, gj = get_local_id(0) % FV_GJ;
    FV_TIMES(a, FV_TM) {
        const uint i = gi * FV_TM + a, c = c0 + i % TILE_CHANNELS;
        const uint row = i / TILE_CHANNELS * FV_D + c;
        if (c >= FV_D)
            continue;
        float2 fade = (float2)(1.f);
        float u_row = 0.f;
        if (SHIFT && !first)
            fade = fades(FV_GET(6, state + AT_SHIFT + c), shift[c]);
        if (CENTRED && !first)
            u_row = rate.x * turned_mean[i] - rate.y * FV_GET(6, state + AT_W + row);
        FV_TIMES(q, QUADS) {
            const uint at = COLUMN(q, gj), j = j0 + at, left = FV_DV - j;
            if (j >= FV_DV)
                continue;
            global FV_CELL(6) *s = state + row * FV_DV + j;
            float4 x = f.s0 * acc[a][q];
            if (!first)
                x = fade.x * GET_QUAD(6, s, left) + fade.y * x;
            if (CENTRED && !first)
                x += u_row * (*(SHARED const float4 *)(vmean + at) -
                              GET_QUAD(6, state + AT_VMEAN + j, left));
            PUT_QUAD(6, s, x, left);
        }
    }
}

/* Loads the quads of row `row` of n rows of values, minus their means. */
FV_FN void value_quads(float4 to[QUADS], SHARED const float *val, SHARED const float *vmean,
                       global const FV_CELL(1) *v, size_t ld, uint row, uint present)
{
    const uint gj = get_local_id(0) % FV_GJ;
    FV_TIMES(q, QUADS) {
        const uint at = COLUMN(q, gj);
#if STAGED
        to[q] = *(SHARED const float4 *)(val + row * TJ + at);
#else
        to[q] = at < present ? GET_QUAD(1, v + row * ld + at, present - at) : (float4)(0.f);
        if (CENTRED)
            to[q] -= *(SHARED const float4 *)(vmean + at);
#endif
    }
}

/* A work-group computes a tile of the state of a head and a part, or all tiles one after the
 * other. */
FV_KERNEL void lattn_reduce(OPERANDS)
{
    SHARED_VAR float feat[FV_ROWS * TI] __attribute__((aligned(16)));
    SHARED_VAR float val[STAGED ? FV_ROWS * TJ : 4] __attribute__((aligned(16)));
    SHARED_VAR float vmean[TJ] __attribute__((aligned(16)));
    SHARED_VAR float kept[SOME(KEPT * FV_PARAMS * CHANNELS)], stat[SOME(FV_STATS_KEY) * FV_ROWS];
    SHARED_VAR float shift[SHIFT ? FV_D : 1], turned_mean[TI];
    const uint me = get_local_id(0), gi = me / FV_GJ, gj = me % FV_GJ;
    const uint part = get_group_id(0), head = get_group_id(1), tile = get_group_id(2);
    const uint r0 = (ulong)rows * part / groups, r1 = (ulong)rows * (part + 1) / groups;
    if (r0 == r1 && !first)
        return;
    global FV_CELL(6) *state = FV_AT(6, part) + head * FLOATS;
    global const FV_CELL(0) *k = base0 + at0.x + r0 * (size_t)at0.y;
    const learned l = {base2 + at2.x + FIRST_CHANNEL(head), kept, f.s1};
    /* CENTRED: the number of tokens in the state so far, and the shares of those and of the
     * part. */
    const float before = CENTRED && !first ? FV_GET(6, state + AT_COUNT) : 0.f;
    const float2 rate = (float2)(before, r1 - r0) / fmax(before + (r1 - r0), 1.f);
    keep(kept, &l);
    key_shifts(shift, k + head * FV_D, at0.y, r1 - r0);
    FV_BARRIER();

    for (uint t = SERIAL ? 0 : tile; t < (SERIAL ? TILES_I * TILES_J : tile + 1); t++) {
        const uint c0 = t / TILES_J * TILE_CHANNELS, j0 = t % TILES_J * TJ;
        global const FV_CELL(1) *v = base1 + at1.x + r0 * (size_t)at1.y + head * FV_DV + j0;
        float4 acc[FV_TM][QUADS];
        float m[OWN] = {0.f}, w[OWN] = {0.f};
        clear(acc);
        value_means(vmean, TJ, v, at1.y, r1 - r0, FV_DV - j0);
        FV_BARRIER();
        for (uint r = 0; r < r1 - r0; r += FV_ROWS) {
            const uint n = min(r1 - r0 - r, (uint)FV_ROWS);
            global const FV_CELL(0) *x = k + r * (size_t)at0.y;
#if FV_STATS_KEY
            key_statistics(stat, feat, x + FIRST_CHANNEL(head), at0.y, n, &l, shift);
#endif
            if (STAGED)
                tile_values(val, TJ, v + r * (size_t)at1.y, at1.y, n, FV_DV - j0, vmean);
            map_keys(feat, TILE_CHANNELS, TI, 1, x + head * FV_D, at0.y, c0, n, &l, shift, stat);
#if GATED
            gate_features(OPERANDS_GIVEN, feat, r0 + r, n);
#endif
            FV_BARRIER();
            add_columns(m, feat, n);
#if TURNED
            FV_BARRIER();
            turn_features(OPERANDS_GIVEN, feat, c0, r0 + r, n);
            FV_BARRIER();
            if (CENTRED)
                add_columns(w, feat, n);
#endif
            PRODUCTS(row, STAGED ? FV_ROWS : n) {
                float4 right[QUADS];
                value_quads(right, val, vmean, v + r * (size_t)at1.y, at1.y, row, FV_DV - j0);
                add_products(acc, feat + row * TI + gi * FV_TM, right);
            }
            FV_BARRIER();
        }

        FV_TIMES(q, OWN)
            if (CENTRED && q * FV_GROUP + me < TI)
                turned_mean[q * FV_GROUP + me] = f.s0 * (TURNED ? w[q] : m[q]);
        FV_BARRIER();
        fold_products(OPERANDS_GIVEN, acc, state, shift, turned_mean, vmean, rate, c0, j0);
        if (SERIAL)
            FV_STATE_BARRIER();

        /* The last tile with the same channels writes their means; the last tile with the same
         * value columns writes those. The tiles before have to read the old ones. */
        if (t % TILES_J == TILES_J - 1)
            write_feature_means(OPERANDS_GIVEN, state, m, turned_mean, shift, c0);
        if (CENTRED && t / TILES_J == TILES_I - 1)
            write_value_means(OPERANDS_GIVEN, state, vmean, rate.y, j0);
        if (SERIAL)
            FV_STATE_BARRIER();
    }
    if (CENTRED && me == 0)
        FV_PUT(6, state + AT_COUNT, before + (r1 - r0));
}
#endif

/* ---- MERGE ---- */

#ifdef FV_LATTN_MERGE
#define STATE(g, i) FV_GET(0, states + (g) * (size_t)at0.y + (i))
#define LOADED_AT_ONCE 8 /* parts whose numbers are loaded before any is merged */

/* A work-item merges one number of a head's state. */
FV_KERNEL void lattn_merge(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint e = get_global_id(0), head = get_global_id(1), parts = dim.s4;
    if (e >= FLOATS)
        return;
    global const FV_CELL(0) *states = base0 + at0.x + head * FLOATS;
    const uint row = e < AT_M ? e / FV_DV : e - AT_M;
    float x = 0.f;
    if (SHIFT && e < AT_W) {
        float top = -FLT_MAX;
        for (uint g = 0; g < parts; g++)
            top = fmax(top, STATE(g, AT_SHIFT + row));
        for (uint g = 0; g < parts; g++)
            x += exp(STATE(g, AT_SHIFT + row) - top) * STATE(g, e);
    } else if (SHIFT && e >= AT_SHIFT) {
        x = -FLT_MAX;
        for (uint g = 0; g < parts; g++)
            x = fmax(x, STATE(g, e));
    } else if (CENTRED && (e < AT_M || (e >= AT_VMEAN && e < AT_COUNT))) {
        /* Partials are added one after the other, as in fold_products. */
        const uint j = e < AT_M ? e % FV_DV : e - AT_VMEAN;
        float count = 0.f, w = 0.f, vmean = 0.f, s = 0.f;
        for (uint g = 0; g < parts; g += LOADED_AT_ONCE) {
            float n[LOADED_AT_ONCE], mean[LOADED_AT_ONCE], own[LOADED_AT_ONCE],
                other[LOADED_AT_ONCE];
            FV_TIMES(i, LOADED_AT_ONCE) {
                const uint part = min(g + i, parts - 1);
                n[i] = STATE(part, AT_COUNT);
                mean[i] = STATE(part, AT_VMEAN + j);
                own[i] = STATE(part, e);
                other[i] = e < AT_M ? STATE(part, AT_W + row) : 0.f;
            }
            FV_TIMES(i, LOADED_AT_ONCE)
                if (g + i < parts) {
                    const float total = count + n[i], share = total > 0.f ? n[i] / total : 0.f;
                    const float delta = mean[i] - vmean;
                    s += own[i] + ((1.f - share) * other[i] - share * w) * delta;
                    w += other[i];
                    vmean += share * delta;
                    count = total;
                }
        }
        x = e < AT_M ? s : vmean;
    } else {
        for (uint g = 0; g < parts; g++)
            x += STATE(g, e);
    }
    FV_PUT(1, base1 + at1.x + head * FLOATS + e, x);
}
#endif

/* ---- APPLY ---- */

#ifdef FV_LATTN_APPLY

/* The tile of the output has ROWS rows and the value columns of the group. Features are computed
 * slab by slab. */
#define ROWS (FV_GI * FV_TM)
#define PITCH (ROWS + 4) /* stride of the features of a channel; spreads stores over the banks */
#define TJ (FV_GJ * FV_TN)
#define SLAB_CHANNELS (FV_SLAB / FV_BLOCKS)
#define SUMS (FV_STREAMS + CENTRED) /* z of every stream; w */
#define STATE(block, c, j) FV_GET(1, state + (((block) ^ STREAM(j)) * FV_D + (c)) * FV_DV + (j))
#define OWN ((ROWS + FV_GROUP - 1) / FV_GROUP)

#if FV_STATS
DEFINE_STATISTICS(query_statistics, 0, FV_STATS_QUERY, 1, ROWS)
#endif
DEFINE_FEATURES(map_queries, 0, FV_STATS_QUERY, 1, ROWS)

/* Loads the slab of the state's channels from c0 on. With FV_STAGE this includes the values'
 * columns from j0 on, as [FV_SLAB][TJ]. Also loads z of every feature for each stream, and w, times
 * the scale, as [FV_SLAB][SUMS]. Stream 1 has its blocks swapped. */
FV_FN void read_slab(SHARED float *s, SHARED float *sums, global const FV_CELL(1) *state,
                     float scale, uint c0, uint j0)
{
    for (uint x = get_local_id(0); STAGED && x < FV_SLAB * TJ; x += FV_GROUP) {
        const uint i = x / TJ, j = j0 + x % TJ, c = c0 + i % SLAB_CHANNELS;
        const uint block = i / SLAB_CHANNELS ^ STREAM(j);
        s[x] = c < FV_D && j < FV_DV ? FV_GET(1, state + (block * FV_D + c) * FV_DV + j) : 0.f;
    }
    for (uint x = get_local_id(0); x < FV_SLAB * SUMS; x += FV_GROUP) {
        const uint i = x / SUMS, t = x % SUMS, c = c0 + i % SLAB_CHANNELS;
        const uint block = i / SLAB_CHANNELS;
        const uint at = t < FV_STREAMS ? AT_M + (block ^ t) * FV_D + c : AT_W + block * FV_D + c;
        sums[x] = c < FV_D ? scale * FV_GET(1, state + at) : 0.f;
    }
}

/* Loads quads of the state for channel c of a block, columns from j0 on. Columns that do not exist
 * are never used. */
FV_FN void state_quads(float4 to[QUADS], global const FV_CELL(1) *state, uint block, uint c,
                       uint j0)
{
    const uint gj = get_local_id(0) % FV_GJ;
    FV_TIMES(q, QUADS) {
        const uint j = min(j0 + COLUMN(q, gj), (uint)(FV_DV - 1) / 4 * 4);
#if IN_STREAM
        to[q] = GET_QUAD(1, state + ((block ^ STREAM(j)) * FV_D + c) * FV_DV + j, FV_DV - j);
#else
        const uint4 at = min(j + (uint4)(0, 1, 2, 3), (uint4)(FV_DV - 1));
        to[q] = (float4)(STATE(block, c, at.s0), STATE(block, c, at.s1), STATE(block, c, at.s2),
                         STATE(block, c, at.s3));
#endif
    }
}

/* Adds the terms of a slab's features to sums `begin` to `end` of the work-item's rows. */
FV_FN void add_sums(float own[OWN][SUMS], SHARED const float *feat, SHARED const float *sums,
                    uint begin, uint end)
{
    FV_TIMES(p, OWN) {
        const uint row = p * FV_GROUP + get_local_id(0);
        for (uint i = 0; row < ROWS && i < FV_SLAB; i++) {
            FV_TIMES(t, SUMS)
                if (t >= begin && t < end)
                    own[p][t] += feat[i * PITCH + row] * sums[i * SUMS + t];
        }
    }
}

#if TURNED
/* Rotates the slab of features of n rows from r0 on, for channels from c0 on. */
FV_FN void turn_features(OPERANDS, SHARED float *feat, uint c0, uint r0, uint n)
{
    for (uint x = get_local_id(0); x < FV_SLAB / 2 * ROWS; x += FV_GROUP) {
        const uint row = x % ROWS, i = x / ROWS * 2, c = c0 + i % SLAB_CHANNELS;
        if (row >= n || c >= FV_D)
            continue;
        SHARED float *to = feat + i * PITCH + row;
        const float2 y = TURN((float2)(to[0], to[PITCH]), row0 + r0 + row, c);
        to[0] = y.x;
        to[PITCH] = y.y;
    }
}
#endif

/* The weights of row `row` for columns j to j + 3, by their streams. */
FV_FN float4 stream_weights(SHARED const float *weight, uint row, uint j)
{
#if IN_STREAM
    return (float4)(weight[STREAM(j) * ROWS + row]);
#else
    const uint4 at = min(j + (uint4)(0, 1, 2, 3), (uint4)(FV_DV - 1));
    return (float4)(weight[STREAM(at.s0) * ROWS + row], weight[STREAM(at.s1) * ROWS + row],
                    weight[STREAM(at.s2) * ROWS + row], weight[STREAM(at.s3) * ROWS + row]);
#endif
}

/* Writes the work-item's results for n rows from r0 on and columns from j0 on. */
FV_FN void write_results(OPERANDS, float4 acc[FV_TM][QUADS], SHARED const float *weight,
                         global const FV_CELL(1) *state, uint r0, uint n, uint j0)
{
    const uint gi = get_local_id(0) / FV_GJ, gj = get_local_id(0) % FV_GJ, head = get_group_id(1);
    FV_TIMES(a, FV_TM) {
        const uint row = gi * FV_TM + a;
        if (row >= n)
            continue;
        const float gate = GATED ? FV_GET(5, FV_AT(5, r0 + row) + head) : 1.f;
        FV_TIMES(q, QUADS) {
            const uint j = j0 + COLUMN(q, gj), left = FV_DV - j;
            if (j >= FV_DV)
                continue;
            float4 o = f.s0 * acc[a][q] * stream_weights(weight, row, j);
            if (CENTRED)
                o += weight[FV_STREAMS * ROWS + row] * GET_QUAD(1, state + AT_VMEAN + j, left);
            PUT_QUAD(6, FV_AT(6, r0 + row) + head * FV_DV + j, gate * o, left);
        }
    }
}

/* A work-group computes some rows of a head and TJ of its value columns. */
FV_KERNEL void lattn_apply(OPERANDS)
{
    SHARED_VAR float feat[FV_SLAB * PITCH] __attribute__((aligned(16)));
    SHARED_VAR float s[STAGED ? FV_SLAB * TJ : 4] __attribute__((aligned(16)));
    SHARED_VAR float sums[SUMS * FV_SLAB];
    /* Scales of the results per stream, then the coefficient of vmean. */
    SHARED_VAR float weight[SUMS * ROWS];
    SHARED_VAR float kept[SOME(KEPT * FV_PARAMS * CHANNELS)], stat[SOME(FV_STATS) * ROWS];
    SHARED_VAR float shift[SHIFT ? FV_D : 1];
    const uint me = get_local_id(0), gi = me / FV_GJ, gj = me % FV_GJ;
    const uint r0 = get_group_id(0) * ROWS, head = get_group_id(1), j0 = get_group_id(2) * TJ;
    const uint n = min(rows - r0, (uint)ROWS);
    global const FV_CELL(1) *state = base1 + at1.x + head * FLOATS;
    global const FV_CELL(0) *q = FV_AT(0, r0);
    const learned l = {base2 + at2.x + FIRST_CHANNEL(head), kept, f.s2};
    keep(kept, &l);
    for (uint c = me; SHIFTED && c < FV_D; c += FV_GROUP)
        shift[c] = -FV_GET(1, state + AT_SHIFT + c);
    FV_BARRIER();
#if FV_STATS
    query_statistics(stat, feat, q + FIRST_CHANNEL(head), at0.y, n, &l, shift);
#endif

    float4 acc[FV_TM][QUADS];
    float own[OWN][SUMS] = {{0.f}};
    clear(acc);
    for (uint c0 = 0; c0 < FV_D; c0 += SLAB_CHANNELS) {
        map_queries(feat, SLAB_CHANNELS, 1, PITCH, q + head * FV_D, at0.y, c0, n, &l, shift, stat);
        read_slab(s, sums, state, f.s0, c0, j0);
        FV_BARRIER();
        add_sums(own, feat, sums, 0, TURNED ? FV_STREAMS : SUMS);
#if TURNED
        FV_BARRIER();
        turn_features(OPERANDS_GIVEN, feat, c0, r0, n);
        FV_BARRIER();
        add_sums(own, feat, sums, FV_STREAMS, SUMS);
#endif
        FV_TIMES(block, FV_BLOCKS) {
            const uint channels = min(FV_D - c0, (uint)SLAB_CHANNELS);
            PRODUCTS(c, channels) {
                const uint i = block * SLAB_CHANNELS + c;
                float4 right[QUADS];
#if STAGED
                FV_TIMES(q, QUADS)
                    right[q] = *(SHARED const float4 *)(s + i * TJ + COLUMN(q, gj));
#else
                state_quads(right, state, block, c0 + c, j0);
#endif
                add_products(acc, feat + i * PITCH + gi * FV_TM, right);
            }
        }
        FV_BARRIER();
    }

    FV_TIMES(p, OWN) {
        const uint row = p * FV_GROUP + me;
        if (row < ROWS)
            set_weights(weight + row, ROWS, own[p], own[p][SUMS - 1], SHIFTED ? stat[row] : 0.f,
                        f.s1);
    }
    FV_BARRIER();
    write_results(OPERANDS_GIVEN, acc, weight, state, r0, n, j0);
}
#endif

/* ---- WLATTN ---- */

#ifdef FV_WLATTN
#define SCRATCH_FLOATS (FV_GROUP > FV_ROWS ? FV_GROUP : FV_ROWS)

#if FV_STATS
DEFINE_STATISTICS(query_statistics, 0, FV_STATS_QUERY, 1, FV_ROWS)
#endif

DEFINE_FEATURES(map_queries, 0, FV_STATS_QUERY, 1, FV_ROWS)

/* Adds the features of some keys [FV_ROWS][WIDTH] to m, and their products with the values
 * [FV_ROWS][FV_COLS] to s. */
FV_FN void add_keys(SHARED float *m, SHARED float *s, SHARED const float *feat,
                    SHARED const float *val)
{
    const uint me = get_local_id(0);
    for (uint i = me; i < WIDTH; i += FV_GROUP) {
        float sum = 0.f;
        for (uint row = 0; row < FV_ROWS; row++)
            sum += feat[row * WIDTH + i];
        m[i] += sum;
    }
    for (uint i = me; i < WIDTH * FV_COLS; i += FV_GROUP) {
        float sum = 0.f;
        for (uint row = 0; row < FV_ROWS; row++)
            sum += feat[row * WIDTH + i / FV_COLS] * val[row * FV_COLS + i % FV_COLS];
        s[i] += sum;
    }
}

/* Computes the weights of n rows' results; without a rotation w is z. */
FV_FN void row_weights(SHARED float *weight, SHARED const float *feat, SHARED const float *m,
                       SHARED const float *stat, uint n, float epsilon)
{
    for (uint row = get_local_id(0); row < n; row += FV_GROUP) {
        float z[FV_STREAMS];
        FV_TIMES(t, FV_STREAMS) {
            z[t] = 0.f;
            for (uint i = 0; i < WIDTH; i++)
                z[t] += feat[row * WIDTH + i] * m[(i / FV_D ^ t) * FV_D + i % FV_D];
        }
        set_weights(weight + row, FV_ROWS, z, z[0], SHIFTED ? stat[row] : 0.f, epsilon);
    }
}

/* Writes the results of n rows from `from` on, for columns from j0 on. */
FV_FN void write_rows(OPERANDS, SHARED const float *feat, SHARED const float *s,
                      SHARED const float *weight, SHARED const float *vmean, uint from, uint n,
                      uint j0)
{
    for (uint i = get_local_id(0); i < FV_ROWS * FV_COLS; i += FV_GROUP) {
        const uint row = i / FV_COLS, j = i % FV_COLS, stream = STREAM(j0 + j);
        if (row >= n || j0 + j >= FV_DV)
            continue;
        float o = 0.f;
        for (uint b = 0; b < FV_BLOCKS; b++)
            for (uint c = 0; c < FV_D; c++)
                o += feat[row * WIDTH + b * FV_D + c] * s[((b ^ stream) * FV_D + c) * FV_COLS + j];
        o *= weight[stream * FV_ROWS + row];
        if (CENTRED)
            o += weight[FV_STREAMS * FV_ROWS + row] * vmean[j];
        FV_PUT(4, FV_AT(4, from + row) + get_group_id(1) * FV_DV + j0 + j, o);
    }
}

/* A work-group processes a window of a head and FV_COLS of its value columns: first it computes
 * their state, then the results of the window's queries. */
FV_KERNEL void wlattn(OPERANDS)
{
    SHARED_VAR float feat[FV_ROWS * WIDTH], val[FV_ROWS * FV_COLS], s[WIDTH * FV_COLS], m[WIDTH];
    SHARED_VAR float shift[SHIFT ? FV_D : 1], vmean[FV_COLS];
    SHARED_VAR float kept[SOME(KEPT * FV_PARAMS * CHANNELS)], stat[SOME(FV_STATS) * FV_ROWS];
    SHARED_VAR float scratch[FV_STATS ? SCRATCH_FLOATS : 1],
        weight[(FV_STREAMS + CENTRED) * FV_ROWS];
    const uint me = get_local_id(0), keys = dim.s3, window = get_group_id(0) * keys;
    const uint head = get_group_id(1), j0 = get_group_id(2) * FV_COLS;
    global const FV_CELL(0) *q = FV_AT(0, window);
    global const FV_CELL(1) *k = FV_AT(1, window);
    global const FV_CELL(2) *v = FV_AT(2, window) + head * FV_DV + j0;
    const learned l = {base3 + at3.x + FIRST_CHANNEL(head), kept, f.s2};
    const float share = 1.f / keys;
    keep(kept, &l);
    key_shifts(shift, k + head * FV_D, at1.y, keys);
    value_means(vmean, FV_COLS, v, at2.y, keys, FV_DV - j0);
    for (uint i = me; i < WIDTH; i += FV_GROUP)
        m[i] = 0.f;
    for (uint i = me; i < WIDTH * FV_COLS; i += FV_GROUP)
        s[i] = 0.f;
    FV_BARRIER();

    for (uint r = 0; r < keys; r += FV_ROWS) {
        const uint n = min(keys - r, (uint)FV_ROWS);
        global const FV_CELL(1) *x = k + r * (size_t)at1.y;
#if FV_STATS_KEY
        key_statistics(stat, scratch, x + FIRST_CHANNEL(head), at1.y, n, &l, shift);
#endif
        map_keys(feat, FV_D, WIDTH, 1, x + head * FV_D, at1.y, 0, n, &l, shift, stat);
        tile_values(val, FV_COLS, v + r * (size_t)at2.y, at2.y, n, FV_DV - j0, vmean);
        FV_BARRIER();
        add_keys(m, s, feat, val);
        FV_BARRIER();
    }
    for (uint i = me; i < WIDTH; i += FV_GROUP)
        m[i] = f.s0 * (share * m[i]);
    for (uint i = me; i < WIDTH * FV_COLS; i += FV_GROUP)
        s[i] = f.s0 * (share * s[i]);
    for (uint c = me; SHIFT && c < FV_D; c += FV_GROUP)
        shift[c] = -shift[c];
    FV_BARRIER();

    for (uint r = 0; r < keys; r += FV_ROWS) {
        const uint n = min(keys - r, (uint)FV_ROWS);
        global const FV_CELL(0) *x = q + r * (size_t)at0.y;
#if FV_STATS
        query_statistics(stat, scratch, x + FIRST_CHANNEL(head), at0.y, n, &l, shift);
#endif
        map_queries(feat, FV_D, WIDTH, 1, x + head * FV_D, at0.y, 0, n, &l, shift, stat);
        FV_BARRIER();
        row_weights(weight, feat, m, stat, n, f.s1);
        FV_BARRIER();
        write_rows(OPERANDS_GIVEN, feat, s, weight, vmean, window + r, n, j0);
        FV_BARRIER();
    }
}
#endif
