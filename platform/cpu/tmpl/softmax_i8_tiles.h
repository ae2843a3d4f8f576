/* softmax_i8_tiles.h: building blocks of SOFTMAX and FOVEATED with products of 8-bit integers: the
 * blocks and tiles of softmax_tiles.h with the register tile of quads.h. Keys and values have the
 * layout of ops/keys_i8.h.
 *
 *   for a panel of queries, for each head:             Qt in numbers [d][queries], a scale each
 *     for each tile of keys, packed as K, V:
 *       for each block of FV_TILE_COLS queries:        S  = K Qt, whole         [keys][queries]
 *                                                      S  = S times the key's scale (and more)
 *                                                      t  = max S
 *                                                      P  = 255 2^(S - t), rounded to bytes
 *                                                      m' = max(m, t)
 *                                                      l  = 2^(m - m') l + 2^(t - m') sum P
 *                                                      Ot = 2^(m - m') Ot + 2^(t - m') Vt P
 *     out = (Ot / l) transposed, times the channel's scale
 *
 * A tile has its own maximum, so that its weights use all eight bits even if an earlier tile has
 * the largest score. If two maxima differ a lot, the tile with the smaller one contributes nothing
 * either way. l sums P before rounding, because many weights that round to 0 may have a large sum.
 */
#ifndef FOVEA_PLATFORM_SOFTMAX_I8_TILES_H
#define FOVEA_PLATFORM_SOFTMAX_I8_TILES_H

#include "ops/contracts/softmax_attention.h"
#include "ops/keys_i8.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/bytes.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/quads.h"
#include "platform/cpu/vec/row.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LOG2_E 1.44269504f

enum {
    TILE = FV_SOFTMAX_BLOCK, /* keys */
    /* Offset from a block's scores to its weights, in floats. Weights replace the scores, unless a
     * group of weights takes more bytes than one score: it would overwrite scores that are still to
     * be read. */
    WEIGHTS_AT = FV_STEPS * sizeof(fv_number) > sizeof(float) ? TILE *FV_TILE_COLS : 0
};

/* Sizes of a problem, and offsets of the parts of its scratch in bytes. The names with `p` are
 * rounded up to whole groups or tiles. */
typedef struct layout {
    size_t d, dp, dv, dvp;
    size_t ld_v;          /* row stride of packed values */
    size_t queries;       /* queries per panel, rounded up to whole blocks */
    size_t height, width; /* size of the keys' grid if relative positions are added, else 0 */
    size_t qt, ot, by, max, sum, scores, keys, key_scale, key_first, values, value_first, row, rel,
        bytes;
} layout;

/* Reserves `bytes` in whole cache lines; returns their offset. */
static size_t reserve(layout *l, size_t bytes)
{
    const size_t at = l->bytes;
    l->bytes += fv_tile_round(bytes, 64);
    return at;
}

/* Returns the scratch of a call that processes `queries` queries at a time. `width`: columns of the
 * keys' grid if relative positions are added, else 0. */
static layout lay_out(const fv_problem *p, size_t queries, size_t width)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV], .width = width};
    l.height = width ? p->dim[FV_ATTN_KEYS] / width : 0;
    l.dp = fv_tile_round(l.d, FV_STEPS);
    l.dvp = fv_tile_round(l.dv, FV_TILE_M);
    l.ld_v = fv_tile_round(l.dvp, FV_W);
    l.queries = fv_tile_round(queries, FV_TILE_COLS);
    l.qt = reserve(&l, l.queries * l.dp * sizeof(fv_number));
    l.ot = reserve(&l, l.queries * l.dvp * sizeof(float));
    l.by = reserve(&l, l.queries * sizeof(float));
    l.max = reserve(&l, l.queries * sizeof(float));
    l.sum = reserve(&l, l.queries * sizeof(float));
    l.scores = reserve(&l, ((size_t)TILE * FV_TILE_COLS + WEIGHTS_AT) * sizeof(float));
    l.keys = reserve(&l, TILE * l.dp * sizeof(fv_number));
    l.key_scale = reserve(&l, TILE * sizeof(float));
    l.key_first = reserve(&l, TILE * sizeof(int32_t));
    l.values = reserve(&l, TILE * l.ld_v * sizeof(fv_number));
    l.value_first = reserve(&l, l.ld_v * sizeof(int32_t));
    l.row = reserve(&l, fv_tile_round(l.d > l.dv ? l.d : l.dv, FV_W) * sizeof(float) + l.dp);
    l.rel = reserve(&l, l.queries * (l.height + l.width) * sizeof(float));
    return l;
}

/* ---- queries ---- */

/* Prepares a panel; called before its queries are packed. */
static void begin_queries(char *scratch, const layout *l)
{
    float *max = (float *)(void *)(scratch + l->max);
    memset(scratch + l->qt, 0, l->by - l->qt);
    memset(scratch + l->by, 0, l->queries * sizeof(float));
    memset(scratch + l->sum, 0, l->queries * sizeof(float));
    for (size_t r = 0; r < l->queries; r++)
        max[r] = -INFINITY;
}

/* Packs queries [first, end): query r is lane r % FV_TILE_COLS of block r / FV_TILE_COLS. Scores
 * are multiplied by `scale`, which includes log2(e). */
static void pack_queries(char *scratch, const layout *l, const void *q, enum fv_type type,
                         size_t ld, size_t first, size_t end, float scale)
{
    float *by = (float *)(void *)(scratch + l->by), *row = (float *)(void *)(scratch + l->row);
    int8_t *number = (int8_t *)(row + fv_tile_round(l->d, FV_W));
    memset(number + l->d, 0, l->dp - l->d);
    for (size_t r = first; r < end; r++, q = fv_element(q, type, ld)) {
        fv_number *to = (fv_number *)(void *)(scratch + l->qt) +
                        (r / FV_TILE_COLS * l->dp * FV_TILE_COLS) + r % FV_TILE_COLS * FV_STEPS;
        int32_t sum;
        fv_row_convert(row, FV_F32, q, type, l->d);
        by[r] = fv_i8_row(number, &sum, row, l->d) * scale;
        for (size_t i = 0; i < l->dp; i += FV_STEPS, to += FV_STEPS * FV_TILE_COLS)
            fv_put_steps(to, number + i, FV_QUERY_OFF);
    }
}

/* ---- keys ---- */

/* A tile of keys before it is packed: pointers to the numbers of each key and of its value. */
typedef struct tile_of_keys {
    const int8_t *k[TILE], *v[TILE];
    float scale[TILE], bias[TILE]; /* bias: added to its scores */
    int32_t sum[TILE];
    size_t n;
    bool biased; /* whether any bias is not 0 */
} tile_of_keys;

/* Adds key j of the head at `row` to the tile. */
FV_FN void take_key(tile_of_keys *t, const fv_keys_i8 *at, const char *row, size_t j, float bias)
{
    const int8_t *whole = (const int8_t *)row;
    t->k[t->n] = whole + at->k + j * at->d;
    t->v[t->n] = whole + at->v + j * at->dv;
    t->scale[t->n] = ((const float *)(const void *)(row + at->key_scale))[j];
    t->sum[t->n] = ((const int32_t *)(const void *)(row + at->key_sum))[j];
    t->bias[t->n++] = bias;
    t->biased |= bias != 0;
}

FV_FN void pack_steps(fv_number *to, const int8_t *const v[FV_STEPS], size_t width)
{
    for (size_t i = 0; i < width; i++)
        for (size_t k = 0; k < FV_STEPS; k++)
            to[i * FV_STEPS + k] = v[k][i];
}

static void pack_values(char *scratch, const layout *l, const tile_of_keys *t)
{
    fv_number *to = (fv_number *)(void *)(scratch + l->values);
    int32_t *first = (int32_t *)(void *)(scratch + l->value_first);
    size_t j = 0;
    for (; j + FV_STEPS <= t->n; j += FV_STEPS)
        pack_steps(to + j * l->ld_v, t->v + j, l->dv);
    if (j < t->n)
        memset(to + j * l->ld_v, 0, FV_STEPS * l->ld_v * sizeof *to);
    for (size_t k = 0; j + k < t->n; k++)
        for (size_t i = 0; i < l->dv; i++)
            to[j * l->ld_v + i * FV_STEPS + k] = t->v[j + k][i];
    memset(first, 0, l->ld_v * sizeof *first);
    for (j = 0; FV_WEIGHT_OFF && j < t->n; j++)
        for (size_t i = 0; i < l->dv; i++)
            first[i] -= FV_WEIGHT_OFF * t->v[j][i];
}

/* Packs d numbers as key j of a tile, followed by zeros. */
FV_FN void put_key(fv_number *keys, const layout *l, size_t j, const int8_t *number, size_t d)
{
    fv_number *to = keys + j * (FV_BY_DEPTH ? FV_STEPS : l->dp);
    size_t k = 0;
    if (!FV_BY_DEPTH) {
        for (; k < d; k++)
            to[k] = number[k];
        memset(to + d, 0, (l->dp - d) * sizeof *to);
        return;
    }
    for (; k + FV_STEPS <= d; k += FV_STEPS)
        fv_put_steps(to + k * TILE, number + k, 0);
    for (; k < l->dp; k += FV_STEPS)
        for (size_t i = 0; i < FV_STEPS; i++)
            to[k * TILE + i] = k + i < d ? number[k + i] : 0;
}

/* Packs a tile. Returns a term to add to all scores: NaN if any key's scale is NaN, else 0. */
static float pack_tile(char *scratch, const layout *l, const tile_of_keys *t)
{
    fv_number *keys = (fv_number *)(void *)(scratch + l->keys);
    float *scale = (float *)(void *)(scratch + l->key_scale), poison = 0;
    int32_t *first = (int32_t *)(void *)(scratch + l->key_first);
    const size_t end = fv_tile_round(t->n, FV_TILE_M);
    for (size_t j = 0; j < t->n; j++) {
        put_key(keys, l, j, t->k[j], l->d);
        first[j] = -FV_QUERY_OFF * t->sum[j];
        scale[j] = t->scale[j];
        poison += 0.f * scale[j];
    }
    for (size_t j = t->n; j < end; j++)
        put_key(keys, l, j, NULL, 0);
    memset(first + t->n, 0, (end - t->n) * sizeof *first);
    memset(scale + t->n, 0, (end - t->n) * sizeof *scale);
    pack_values(scratch, l, t);
    return poison;
}

/* ---- tiles ---- */

/* S = K Qt for the first `vecs` vectors of a block and n keys, times the keys' scales; top: the
 * largest score of each query. Keys beyond n are zero. */
FV_FN void score(fv_v top[FV_TILE_N], float *s, const char *scratch, const layout *l,
                 const fv_number *qt, size_t n, int vecs)
{
    const fv_number *keys = (const fv_number *)(const void *)(scratch + l->keys);
    const float *scale = (const float *)(const void *)(scratch + l->key_scale);
    const int32_t *first = (const int32_t *)(const void *)(scratch + l->key_first);
    const size_t m = FV_BY_DEPTH ? FV_STEPS : l->dp;
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        top[v] = fv_set(-INFINITY);
    for (size_t j = 0; j < n; j += FV_TILE_M) {
        fv_whole acc[FV_TILE_M][FV_TILE_N];
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[i][v] = fv_whole_set(first[j + i]);
        }
        fv_whole_tile_add(acc, vecs, keys + j * m, m, FV_BY_DEPTH ? TILE * FV_STEPS : FV_STEPS, qt,
                          FV_TILE_COLS, l->dp / FV_STEPS);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                const fv_v x = fv_mul(fv_of_whole(acc[i][v]), fv_set(scale[j + i]));
                fv_store(s + (j + i) * FV_TILE_COLS + v * FV_W, x);
                if (j + i < n)
                    top[v] = fv_max(top[v], x);
            }
        }
    }
}

/* Multiplies scores by the queries' scales, and adds each key's bias; top: the largest score of
 * each query. `by` becomes 1, since scores are now scaled. */
FV_FN void add_bias(fv_v top[FV_TILE_N], float *s, const float *bias, size_t n, fv_v by[FV_TILE_N],
                    int vecs)
{
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        top[v] = fv_set(-INFINITY);
    for (size_t j = 0; j < n; j++, s += FV_TILE_COLS) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_v sum = fv_fma(fv_load(s + v * FV_W), by[v], fv_set(bias[j]));
            fv_store(s + v * FV_W, sum);
            top[v] = fv_max(top[v], sum);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        by[v] = fv_set(1.f);
}

/* Multiplies scores by the queries' scales, and adds each query's terms for the key's row and
 * column; top: the largest score of each query. A NaN among the terms makes `top` NaN. */
FV_FN void add_relative(fv_v top[FV_TILE_N], float *s, const float *rel, const layout *l,
                        size_t key0, size_t n, fv_v by[FV_TILE_N], int vecs)
{
    size_t y = key0 / l->width, x = key0 % l->width;
    fv_v poison[FV_TILE_N];
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        top[v] = fv_set(-INFINITY);
        poison[v] = fv_set(0.f);
    }
    for (size_t j = 0; j < n; j++, s += FV_TILE_COLS) {
        const float *down = rel + y * FV_TILE_COLS, *across = rel + (l->height + x) * FV_TILE_COLS;
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_v both = fv_add(fv_load(down + v * FV_W), fv_load(across + v * FV_W));
            const fv_v sum = fv_fma(fv_load(s + v * FV_W), by[v], both);
            fv_store(s + v * FV_W, sum);
            top[v] = fv_max(top[v], sum);
            poison[v] = fv_fma(both, fv_set(0.f), poison[v]);
        }
        if (++x == l->width) {
            x = 0;
            y++;
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        top[v] = fv_add(top[v], poison[v]);
        by[v] = fv_set(1.f);
    }
}

/* 255 2^x for y = 2^23 (x + 127), x <= 0: the weight before it is rounded to a byte. The error is
 * at most 9.3e-4; whole x are exact. The float with the bits y interpolates 2^x linearly between
 * powers of two. A cubic in its mantissa m, 1 + (m - 1) (m - 2) (k + l m), corrects it. */
FV_FN fv_v weigh(fv_v s, fv_v by, fv_v from)
{
    const float k = 25693 / 256.f, l = -7029 / 256.f; /* sums of these constants are exact */
    fv_v m;
    const fv_v line = fv_of_bits(fv_max(fv_fma(s, by, from), fv_set(0.f)), &m);
    fv_v part = fv_fma(fv_set(l), m, fv_set(k - 3 * l));
    part = fv_fma(part, m, fv_set(2 * l - 3 * k));
    return fv_mul(line, fv_fma(part, m, fv_set(255 + 2 * k)));
}

/* Converts the scores of n <= FV_STEPS keys from j on to weights, in vector v of a block; returns
 * `sum` plus the sum of the weights. */
FV_FN fv_v weigh_steps(fv_number *p, const float *s, size_t j, int v, size_t n, fv_v by, fv_v from,
                       fv_v sum)
{
    fv_v x[FV_STEPS];
    FV_UNROLL
    for (size_t k = 0; k < FV_STEPS; k++) {
        const float *at = s + (j + k) * FV_TILE_COLS + v * FV_W;
        x[k] = k < n ? weigh(fv_load(at), by, from) : fv_set(0.f);
        sum = fv_add(sum, x[k]);
    }
    fv_put_weights(p + j * FV_TILE_COLS + (size_t)v * FV_W * FV_STEPS, x);
    return sum;
}

/* Converts scores, multiplied by `by`, to weights at s + WEIGHTS_AT. `fade` becomes the factor for
 * previous sums, `rise` the factor for this tile's sums. */
FV_FN void exponentiate(fv_v fade[FV_TILE_N], fv_v rise[FV_TILE_N], const fv_v top[FV_TILE_N],
                        float *s, const fv_v by[FV_TILE_N], float *max, float *sum, size_t n,
                        int vecs)
{
    const float unit = 0x1p23f;
    fv_number *p = (fv_number *)(void *)(s + WEIGHTS_AT);
    fv_v from[FV_TILE_N], add[FV_TILE_N], slope[FV_TILE_N];
    size_t j = 0;
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        const fv_v old = fv_load(max + v * FV_W), of_tile = fv_mul(top[v], by[v]);
        const fv_v part = fv_exp2_neg(fv_neg(fv_abs(fv_sub(old, of_tile))));
        fade[v] = fv_sel_lt(of_tile, old, fv_set(1.f), part);
        rise[v] = fv_sel_lt(of_tile, old, part, fv_set(1.f));
        fv_store(max + v * FV_W, fv_max(old, of_tile));
        slope[v] = fv_mul(by[v], fv_set(unit));
        from[v] = fv_fma(of_tile, fv_set(-unit), fv_set(127 * unit));
        add[v] = fv_set(0.f);
    }
    for (; j + FV_STEPS <= n; j += FV_STEPS) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            add[v] = weigh_steps(p, s, j, v, FV_STEPS, slope[v], from[v], add[v]);
    }
    FV_UNROLL
    for (int v = 0; j < n && v < vecs; v++)
        add[v] = weigh_steps(p, s, j, v, n - j, slope[v], from[v], add[v]);
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        const fv_v before = fv_mul(fv_load(sum + v * FV_W), fade[v]);
        fv_store(sum + v * FV_W, fv_fma(add[v], rise[v], before));
    }
}

/* Ot = fade Ot + rise Vt P */
FV_FN void accumulate_values(char *scratch, const layout *l, size_t r, const fv_v fade[FV_TILE_N],
                             const fv_v rise[FV_TILE_N], const fv_number *p, size_t n, int vecs)
{
    const fv_number *values = (const fv_number *)(const void *)(scratch + l->values);
    const int32_t *first = (const int32_t *)(const void *)(scratch + l->value_first);
    float *ot = (float *)(void *)(scratch + l->ot) + r * l->dvp;
    for (size_t i0 = 0; i0 < l->dvp; i0 += FV_TILE_M) {
        fv_whole acc[FV_TILE_M][FV_TILE_N];
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                acc[i][v] = fv_whole_set(FV_WEIGHT_OFF ? first[i0 + i] : 0);
        }
        fv_whole_tile_add(acc, vecs, values + i0 * FV_STEPS, FV_STEPS, l->ld_v * FV_STEPS, p,
                          FV_TILE_COLS, (n + FV_STEPS - 1) / FV_STEPS);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                float *at = ot + (i0 + i) * FV_TILE_COLS + v * FV_W;
                const fv_v before = fv_mul(fv_load(at), fade[v]);
                fv_store(at, fv_fma(fv_of_whole(acc[i][v]), rise[v], before));
            }
        }
    }
}

/* Attends the block of queries at row r of a panel to the packed tile, whose first key is key0. A
 * block with few queries computes only `vecs` vectors. `poison` is added to scores. */
FV_FN void attend_tile(const layout *l, char *scratch, size_t r, const tile_of_keys *t, size_t key0,
                       int vecs, float poison)
{
    float *s = (float *)(void *)(scratch + l->scores);
    const float *scale = (const float *)(const void *)(scratch + l->by) + r;
    const float *rel = (const float *)(const void *)(scratch + l->rel);
    fv_v top[FV_TILE_N], by[FV_TILE_N], fade[FV_TILE_N], rise[FV_TILE_N];
    score(top, s, scratch, l, (const fv_number *)(const void *)(scratch + l->qt) + r * l->dp, t->n,
          vecs);
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        by[v] = fv_load(scale + v * FV_W);
    if (l->width)
        add_relative(top, s, rel + r * (l->height + l->width), l, key0, t->n, by, vecs);
    else if (t->biased)
        add_bias(top, s, t->bias, t->n, by, vecs);
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        top[v] = fv_add(top[v], fv_set(poison));
    exponentiate(fade, rise, top, s, by, (float *)(void *)(scratch + l->max) + r,
                 (float *)(void *)(scratch + l->sum) + r, t->n, vecs);
    accumulate_values(scratch, l, r, fade, rise, (const fv_number *)(const void *)(s + WEIGHTS_AT),
                      t->n, vecs);
}

/* Attends all `queries` queries of the panel to the keys of the tile, the first of which is key0.
 */
static void attend_blocks(const layout *l, char *scratch, size_t queries, const tile_of_keys *t,
                          size_t key0)
{
    const float poison = pack_tile(scratch, l, t);
    for (size_t r = 0; r < queries; r += FV_TILE_COLS) {
        if (FV_TILE_N > 2 && queries - r > 2 * FV_W)
            attend_tile(l, scratch, r, t, key0, FV_TILE_N, poison);
        else if (queries - r > FV_W)
            attend_tile(l, scratch, r, t, key0, 2, poison);
        else
            attend_tile(l, scratch, r, t, key0, 1, poison);
    }
}

/* Queries [first, end). */
static void write_out(void *out, enum fv_type type, size_t ld, const layout *l, char *scratch,
                      const float *value_scale, size_t first, size_t end)
{
    float *row = (float *)(void *)(scratch + l->row);
    const float *ot = (const float *)(const void *)(scratch + l->ot);
    const float *sum = (const float *)(const void *)(scratch + l->sum);
    for (size_t r = first; r < end; r++, out = fv_element(out, type, ld)) {
        const size_t block = r / FV_TILE_COLS * FV_TILE_COLS;
        const float *lane = ot + block * l->dvp + r % FV_TILE_COLS;
        const fv_v part = fv_set(1.f / sum[r]);
        for (size_t i = 0; i < l->dv; i++)
            row[i] = lane[i * FV_TILE_COLS];
        for (size_t i = 0; i < l->dv; i += FV_W) {
            const int n = fv_lanes(l->dv - i);
            const fv_v x = fv_mul(fv_load_n(row + i, n), part);
            fv_row_store(out, type, i, fv_mul(x, fv_load_n(value_scale + i, n)), n);
        }
    }
}

#endif
