/* softmax_tiles.h: building blocks of SOFTMAX and FOVEATED, in vec.h's vector functions: blocks of
 * queries are multiplied by tiles of keys, in float32 or in bfloat16 (operands.h).
 *
 * Queries are spread across the lanes, so that maximum, sum and rescaling need no work across
 * lanes, no key has to be transposed, and a query's arithmetic does not depend on its position in a
 * call:
 *
 *   for a panel of queries, for each head:             Qt [d][queries]
 *     for each tile of keys, copied to packed K, V:
 *       for each block of FV_TILE_COLS queries:        S  = K Qt scale log2(e)    [keys][queries]
 *                                                      S += relative positions, masks
 *                                                      m' = max(m, S), P = 2^(S - m')
 *                                                      l  = 2^(m - m') l + sum P
 *                                                      Ot = 2^(m - m') Ot + Vt P   [dv][queries]
 *     out = (Ot / l) transposed
 *
 * With float32 operands the queries are scaled, with bfloat16 the scores. P is rounded like the
 * operands before it is summed, so that the weights of a query still sum to one.
 */
#ifndef FOVEA_PLATFORM_SOFTMAX_TILES_H
#define FOVEA_PLATFORM_SOFTMAX_TILES_H

#include "ops/contracts/softmax_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/operands.h"

#include <stdbool.h>
#include <string.h>

/* Sizes of a problem and offsets of the parts of its scratch. */
typedef struct layout {
    /* dp: d filled up to whole steps; dvp: dv rounded up to the register tile. */
    size_t d, dp, dv, dvp;
    size_t ld_v; /* row stride of packed values */
    size_t tile, tilep;
    size_t queries;       /* queries per panel, rounded up to whole blocks */
    size_t height, width; /* size of the keys' grid if relative positions are added, else 0 */
    size_t qt, ot, max, sum, keys, values, scores, row, rel, floats;
} layout;

/* Returns the scratch of a call that processes `queries` queries at a time. `width`: columns of the
 * keys' grid if relative positions are added, else 0. */
static layout lay_out(const fv_problem *p, const fv_knobs *k, size_t queries, size_t width)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV], .tile = k->v[0], .width = width};
    l.height = width ? p->dim[FV_ATTN_KEYS] / width : 0;
    l.dp = fv_operand_steps(l.d);
    l.dvp = fv_tile_round(l.dv, FV_TILE_M);
    l.ld_v = fv_tile_round(l.dvp, FV_W);
    l.tilep = fv_tile_round(l.tile, FV_TILE_M);
    l.queries = fv_tile_round(queries, FV_TILE_COLS);
    l.ot = l.qt + fv_operand_floats(l.queries * l.dp);
    l.max = l.ot + l.queries * l.dvp;
    l.sum = l.max + l.queries;
    l.scores = l.sum + l.queries;
    l.keys = l.scores + l.tilep * FV_TILE_COLS;
    l.values = l.keys + fv_operand_floats(l.tilep * l.dp);
    l.row = l.values + fv_operand_floats(l.tilep * l.ld_v);
    l.rel = l.row + (l.dp > l.dvp ? l.dp : l.dvp);
    l.floats = l.rel + l.queries * (l.height + l.width);
    return l;
}

/* Prepares a panel; called before its queries are packed. */
static void begin_queries(float *scratch, const layout *l)
{
    memset(scratch + l->qt, 0, l->queries * l->dp * sizeof(fv_operand_elem));
    memset(scratch + l->ot, 0, l->queries * l->dvp * sizeof *scratch);
    for (size_t r = 0; r < l->queries; r++) {
        scratch[l->max + r] = -INFINITY;
        scratch[l->sum + r] = 0.f;
    }
}

/* Packs queries [first, end): query r is lane r % FV_TILE_COLS of block r / FV_TILE_COLS. */
static void pack_queries(float *scratch, const layout *l, const void *q, enum fv_type type,
                         size_t ld, size_t first, size_t end, float scale)
{
    fv_operand_elem *qt = (fv_operand_elem *)(scratch + l->qt),
                    *row = (fv_operand_elem *)(scratch + l->row);
    for (size_t r = first; r < end; r++, q = fv_element(q, type, ld)) {
        for (size_t i = 0; i < l->dp; i += FV_W) {
            const fv_v x = fv_row_load(q, type, i, fv_lanes(l->d - i));
            fv_operand_put_row(row, i, FV_EXACT ? fv_mul(x, fv_set(scale)) : x,
                               fv_lanes(l->dp - i));
        }
        fv_operand_put_column(qt + r / FV_TILE_COLS * FV_TILE_COLS * l->dp, FV_TILE_COLS,
                              r % FV_TILE_COLS, row, l->dp);
    }
}

/* Masks keys after the query; query i of the block is at row row0 + i. */
static void mask_future(float *s, size_t n, size_t key0, size_t row0)
{
    for (size_t j = 0; j < n; j++) {
        size_t hidden = key0 + j > row0 ? key0 + j - row0 : 0; /* queries before the key */
        for (size_t i = 0; i < hidden && i < FV_TILE_COLS; i++)
            s[j * FV_TILE_COLS + i] = -INFINITY;
    }
}

/* Rows of keys or values of the next tile, to be prefetched into L2; they are too far from each
 * other for hardware prefetchers. A few rows are fetched with each register tile, so that products
 * hide the latency. */
typedef struct prefetch {
    const char *row;
    size_t ld, width;     /* bytes */
    size_t rows, at_once; /* rows left; rows to fetch with each register tile */
} prefetch;

static void prefetch_some(prefetch *next)
{
    enum { LINE = 64 };
    for (size_t i = 0; i < next->at_once && next->rows > 0; i++, next->rows--) {
        for (size_t j = 0; j < next->width; j += LINE)
            __builtin_prefetch(next->row + j, 0, 2);
        next->row += next->ld;
    }
}

/* S = K Qt for the first `vecs` vectors of a block and n keys, in whole tiles of keys; those beyond
 * n are zero. If `bias` is not NULL, it is added to the scores of each key. */
FV_FN void score(float *s, const fv_operand_elem *keys, const fv_operand_elem *qt, size_t d,
                 size_t n, int vecs, float scale, const float *bias, prefetch *next_keys)
{
    for (size_t j = 0; j < n; j += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        prefetch_some(next_keys);
        fv_operand_tile(acc, vecs, keys + j * d, d, 1, qt, FV_TILE_COLS, d);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                const fv_v x = FV_EXACT ? acc[i][v] : fv_mul(acc[i][v], fv_set(scale));
                fv_store(s + (j + i) * FV_TILE_COLS + v * FV_W,
                         bias ? fv_add(x, fv_set(bias[j + i])) : x);
            }
        }
    }
}

/* Adds to the scores of n keys from key0 on each query's terms for the key's row and column. */
FV_FN void add_relative(float *s, const float *rel, const layout *l, size_t key0, size_t n,
                        int vecs)
{
    size_t y = key0 / l->width, x = key0 % l->width;
    for (size_t j = 0; j < n; j++, s += FV_TILE_COLS) {
        const float *down = rel + y * FV_TILE_COLS, *across = rel + (l->height + x) * FV_TILE_COLS;
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_v both = fv_add(fv_load(down + v * FV_W), fv_load(across + v * FV_W));
            fv_store(s + v * FV_W, fv_add(fv_load(s + v * FV_W), both));
        }
        if (++x == l->width) {
            x = 0;
            y++;
        }
    }
}

/* Returns the weight of the score at s: 2^(s - top). */
FV_FN fv_v weigh(const float *s, fv_v top)
{
    const fv_v x = fv_sub(fv_load(s), top);
    return FV_EXACT ? fv_exp2_neg(x) : fv_exp2_neg_rough(x);
}

/* Converts scores to weights, in place. `fade` becomes the factor for all previous sums. */
FV_FN void exponentiate(fv_v fade[FV_TILE_N], float *s, float *max, float *sum, size_t n, int vecs)
{
    fv_operand_elem *p = (fv_operand_elem *)s;
    fv_v top[FV_TILE_N], add[FV_TILE_N];
    size_t j = 0;
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        top[v] = fv_load(max + v * FV_W);
        add[v] = fv_set(0.f);
    }
    for (size_t i = 0; i < n; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            top[v] = fv_max(top[v], fv_load(s + i * FV_TILE_COLS + v * FV_W));
    }
    for (; j + 2 <= n; j += 2) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const float *at = s + j * FV_TILE_COLS + v * FV_W;
            const fv_v even = weigh(at, top[v]), odd = weigh(at + FV_TILE_COLS, top[v]);
            add[v] = fv_operand_put_sum(p, FV_TILE_COLS, j, v * FV_W, even, odd, add[v]);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        if (j < n)
            add[v] = fv_operand_put_sum(p, FV_TILE_COLS, j, v * FV_W,
                                        weigh(s + j * FV_TILE_COLS + v * FV_W, top[v]), fv_set(0.f),
                                        add[v]);
        fade[v] = fv_exp2_neg(fv_sub(fv_load(max + v * FV_W), top[v]));
        fv_store(max + v * FV_W, top[v]);
        fv_store(sum + v * FV_W, fv_fma(fv_load(sum + v * FV_W), fade[v], add[v]));
    }
}

/* Ot = fade Ot + Vt P */
FV_FN void accumulate_values(float *ot, const fv_v fade[FV_TILE_N], const fv_operand_elem *values,
                             const layout *l, const fv_operand_elem *p, size_t n, int vecs,
                             prefetch *next_values)
{
    for (size_t i0 = 0; i0 < l->dvp; i0 += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        prefetch_some(next_values);
        fv_operand_tile(acc, vecs, values + FV_PAIR * i0, FV_PAIR, l->ld_v, p, FV_TILE_COLS,
                        fv_operand_steps(n));
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                float *at = ot + (i0 + i) * FV_TILE_COLS + v * FV_W;
                fv_store(at, fv_fma(fv_load(at), fade[v], acc[i][v]));
            }
        }
    }
}

/* The rows of the next tile of keys to prefetch. */
typedef struct tile_prefetch {
    prefetch keys, values;
} tile_prefetch;

/* Attends the block of queries at row r of a panel to the packed tile of n keys from key0 on. A
 * block with few queries computes only `vecs` vectors. The first query sees the keys up to `last`,
 * and each following query one more. */
FV_FN void attend_tile(const layout *l, float *scratch, size_t r, size_t key0, size_t n,
                       size_t last, int vecs, float scale, const float *bias, tile_prefetch *next)
{
    float *s = scratch + l->scores;
    const fv_operand_elem *keys = (const fv_operand_elem *)(scratch + l->keys);
    const fv_operand_elem *values = (const fv_operand_elem *)(scratch + l->values);
    fv_v fade[FV_TILE_N];
    score(s, keys, (const fv_operand_elem *)(scratch + l->qt) + r * l->dp, l->dp, n, vecs, scale,
          bias, &next->keys);
    if (l->width)
        add_relative(s, scratch + l->rel + r * (l->height + l->width), l, key0, n, vecs);
    if (last != SIZE_MAX)
        mask_future(s, n, key0, last);
    exponentiate(fade, s, scratch + l->max + r, scratch + l->sum + r, n, vecs);
    accumulate_values(scratch + l->ot + r * l->dvp, fade, values, l, (const fv_operand_elem *)s, n,
                      vecs, &next->values);
}

/* Calls attend_tile() for as many vectors as `queries` take. */
static inline void attend_block(const layout *l, float *scratch, size_t r, size_t queries,
                                size_t key0, size_t n, size_t last, float scale, const float *bias,
                                tile_prefetch *next)
{
    if (FV_TILE_N > 2 && queries > 2 * FV_W)
        attend_tile(l, scratch, r, key0, n, last, FV_TILE_N, scale, bias, next);
    else if (queries > FV_W)
        attend_tile(l, scratch, r, key0, n, last, 2, scale, bias, next);
    else
        attend_tile(l, scratch, r, key0, n, last, 1, scale, bias, next);
}

/* Queries [first, end). */
static void write_out(void *out, enum fv_type type, size_t ld, const layout *l, float *scratch,
                      size_t first, size_t end)
{
    float *row = scratch + l->row;
    for (size_t r = first; r < end; r++, out = fv_element(out, type, ld)) {
        const size_t block = r / FV_TILE_COLS * FV_TILE_COLS;
        const float *lane = scratch + l->ot + block * l->dvp + r % FV_TILE_COLS;
        const fv_v part = fv_set(1.f / scratch[l->sum + r]);
        for (size_t i = 0; i < l->dv; i++)
            row[i] = lane[i * FV_TILE_COLS];
        for (size_t i = 0; i < l->dv; i += FV_W) {
            const int n = fv_lanes(l->dv - i);
            fv_row_store(out, type, i, fv_mul(fv_load_n(row + i, n), part), n);
        }
    }
}

#endif
