/* softmax_tiles.h: SOFTMAX attention over the vector vocabulary, for factors of either kind
 * (factors.h).
 *
 * Queries lie across the lanes, so that maximum, sum and rescaling need no work across lanes, no
 * key has to be transposed, and a query's arithmetic does not depend on its place in a call:
 *
 *   for a panel of queries, for each head:             Qt [d][queries]
 *     for each tile of keys, copied to packed K, V:
 *       for each block of FV_TILE_COLS queries:        S  = K Qt scale log2(e)    [keys][queries]
 *                                                      m' = max(m, S), P = 2^(S - m')
 *                                                      l  = 2^(m - m') l + sum P
 *                                                      Ot = 2^(m - m') Ot + Vt P   [dv][queries]
 *     out = (Ot / l) transposed
 *
 * Exact factors are scaled as queries, others as scores. P are factors where they enter a sum too,
 * so that the weights of a query still sum to one.
 */
#ifndef FOVEA_PLATFORM_SOFTMAX_TILES_H
#define FOVEA_PLATFORM_SOFTMAX_TILES_H

#define FV_TILE_N FV_TILE_WIDE /* of queries */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/factors.h"
#include "platform/cpu/vec/math.h"

#include <stdbool.h>
#include <string.h>

enum { PANEL = 256 }; /* queries whose Qt and Ot stay in L2 */

/* Sizes of a problem and the parts of its scratch. */
typedef struct layout {
    size_t d, dp, dv, dvp; /* dp: d in whole steps; dvp: dv rounded up to the register tile */
    size_t ld_v;           /* of packed values */
    size_t tile, tilep;
    size_t queries; /* of a panel, rounded up to whole blocks */
    size_t qt, ot, max, sum, keys, values, scores, row, floats;
} layout;

static layout lay_out(const fv_problem *p, const fv_knobs *k, size_t rows)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV], .tile = k->v[0]};
    l.dp = fv_factor_steps(l.d);
    l.dvp = fv_tile_round(l.dv, FV_TILE_M);
    l.ld_v = fv_tile_round(l.dvp, FV_W);
    l.tilep = fv_tile_round(l.tile, FV_TILE_M);
    l.queries = fv_tile_round(rows < PANEL ? rows : PANEL, FV_TILE_COLS);
    l.ot = l.qt + fv_factor_floats(l.queries * l.dp);
    l.max = l.ot + l.queries * l.dvp;
    l.sum = l.max + l.queries;
    l.scores = l.sum + l.queries;
    l.keys = l.scores + l.tilep * FV_TILE_COLS;
    l.values = l.keys + fv_factor_floats(l.tilep * l.dp);
    l.row = l.values + fv_factor_floats(l.tilep * l.ld_v);
    l.floats = l.row + (l.dp > l.dvp ? l.dp : l.dvp);
    return l;
}

/* Query r of a panel is lane r % FV_TILE_COLS of block r / FV_TILE_COLS. */
static void pack_queries(float *scratch, const layout *l, const void *q, enum fv_type type,
                         size_t ld, size_t rows, float scale)
{
    fv_factor *qt = (fv_factor *)(scratch + l->qt), *row = (fv_factor *)(scratch + l->row);
    memset(qt, 0, l->queries * l->dp * sizeof *qt);
    for (size_t r = 0; r < rows; r++, q = fv_element(q, type, ld)) {
        for (size_t i = 0; i < l->dp; i += FV_W) {
            const fv_v x = fv_row_load(q, type, i, fv_lanes(l->d - i));
            fv_factor_put_row(row, i, FV_EXACT ? fv_mul(x, fv_set(scale)) : x, fv_lanes(l->dp - i));
        }
        fv_factor_put_column(qt + r / FV_TILE_COLS * FV_TILE_COLS * l->dp, FV_TILE_COLS,
                             r % FV_TILE_COLS, row, l->dp);
    }
}

/* Query row0 + i does not see the keys after it. */
static void mask_future(float *s, size_t n, size_t key0, size_t row0)
{
    for (size_t j = 0; j < n; j++) {
        size_t hidden = key0 + j > row0 ? key0 + j - row0 : 0; /* queries before the key */
        for (size_t i = 0; i < hidden && i < FV_TILE_COLS; i++)
            s[j * FV_TILE_COLS + i] = -INFINITY;
    }
}

/* Rows of the next tile, keys or values, which are prefetched into L2: they lie too far apart for
 * hardware prefetchers. A few with each register tile, so that the products hide them. */
typedef struct ahead {
    const char *row;
    size_t ld, width;     /* bytes */
    size_t rows, at_once; /* left; to be fetched with each register tile */
} ahead;

static void fetch_ahead(ahead *next)
{
    enum { LINE = 64 };
    for (size_t i = 0; i < next->at_once && next->rows > 0; i++, next->rows--) {
        for (size_t j = 0; j < next->width; j += LINE)
            __builtin_prefetch(next->row + j, 0, 2);
        next->row += next->ld;
    }
}

/* S = K Qt of the first `vecs` vectors of a block and n keys; whole tiles of keys, those beyond n
 * are zero. */
FV_FN void score(float *s, const fv_factor *keys, const fv_factor *qt, size_t d, size_t n, int vecs,
                 float scale, ahead *next_keys)
{
    for (size_t j = 0; j < n; j += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        fetch_ahead(next_keys);
        fv_factor_tile(acc, vecs, keys + j * d, d, 1, qt, FV_TILE_COLS, d);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                fv_store(s + (j + i) * FV_TILE_COLS + v * FV_W,
                         FV_EXACT ? acc[i][v] : fv_mul(acc[i][v], fv_set(scale)));
        }
    }
}

/* A weight of the score at s. */
FV_FN fv_v weigh(const float *s, fv_v top)
{
    const fv_v x = fv_sub(fv_load(s), top);
    return FV_EXACT ? fv_exp2_neg(x) : fv_exp2_neg_rough(x);
}

/* Turns scores into weights, in their place; `fade` rescales everything that was summed before. */
FV_FN void exponentiate(fv_v fade[FV_TILE_N], float *s, float *max, float *sum, size_t n, int vecs)
{
    fv_factor *p = (fv_factor *)s;
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
            add[v] = fv_factor_put_sum(p, FV_TILE_COLS, j, v * FV_W, even, odd, add[v]);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        if (j < n)
            add[v] = fv_factor_put_sum(p, FV_TILE_COLS, j, v * FV_W,
                                       weigh(s + j * FV_TILE_COLS + v * FV_W, top[v]), fv_set(0.f),
                                       add[v]);
        fade[v] = fv_exp2_neg(fv_sub(fv_load(max + v * FV_W), top[v]));
        fv_store(max + v * FV_W, top[v]);
        fv_store(sum + v * FV_W, fv_fma(fv_load(sum + v * FV_W), fade[v], add[v]));
    }
}

/* Ot = fade Ot + Vt P */
FV_FN void accumulate_values(float *ot, const fv_v fade[FV_TILE_N], const fv_factor *values,
                             const layout *l, const fv_factor *p, size_t n, int vecs,
                             ahead *next_values)
{
    for (size_t i0 = 0; i0 < l->dvp; i0 += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        fetch_ahead(next_values);
        fv_factor_tile(acc, vecs, values + FV_PAIR * i0, FV_PAIR, l->ld_v, p, FV_TILE_COLS,
                       fv_factor_steps(n));
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

/* The tile of keys after one that is attended to. */
typedef struct tile_ahead {
    ahead keys, values;
} tile_ahead;

/* The block of queries at row r of a panel and the packed tile of n keys from key0 on; of a block
 * with few queries only `vecs` vectors. Its first query sees the keys up to `last`, each other one
 * more. */
FV_FN void attend_tile(const layout *l, float *scratch, size_t r, size_t key0, size_t n,
                       size_t last, int vecs, float scale, tile_ahead *next)
{
    float *s = scratch + l->scores;
    const fv_factor *keys = (const fv_factor *)(scratch + l->keys);
    const fv_factor *values = (const fv_factor *)(scratch + l->values);
    fv_v fade[FV_TILE_N];
    score(s, keys, (const fv_factor *)(scratch + l->qt) + r * l->dp, l->dp, n, vecs, scale,
          &next->keys);
    if (last != SIZE_MAX)
        mask_future(s, n, key0, last);
    exponentiate(fade, s, scratch + l->max + r, scratch + l->sum + r, n, vecs);
    accumulate_values(scratch + l->ot + r * l->dvp, fade, values, l, (const fv_factor *)s, n, vecs,
                      &next->values);
}

static void write_out(void *out, enum fv_type type, size_t ld, const layout *l, float *scratch,
                      size_t rows)
{
    float *row = scratch + l->row;
    for (size_t r = 0; r < rows; r++, out = fv_element(out, type, ld)) {
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

/* One head of a call: where its rows begin. */
typedef struct head {
    const char *q, *k, *v;
    char *out;
    enum fv_type type_q, type_k, type_v, type_out;
    size_t ld_q, ld_k, ld_v, ld_out;
} head;

static head head_of(const fv_args *a, const fv_call *c, const layout *l, size_t number)
{
    head h = {.type_q = fv_factor_rows(a, FV_SOFTMAX_Q),
              .type_k = fv_factor_rows(a, FV_SOFTMAX_K),
              .type_v = fv_factor_rows(a, FV_SOFTMAX_V),
              .type_out = fv_factor_rows(a, FV_SOFTMAX_OUT),
              .ld_q = a->ld[FV_SOFTMAX_Q],
              .ld_k = a->ld[FV_SOFTMAX_K],
              .ld_v = a->ld[FV_SOFTMAX_V],
              .ld_out = a->ld[FV_SOFTMAX_OUT]};
    h.q = fv_element(c->p[FV_SOFTMAX_Q], h.type_q, number * l->d);
    h.k = fv_element(c->p[FV_SOFTMAX_K], h.type_k, number * l->d);
    h.v = fv_element(c->p[FV_SOFTMAX_V], h.type_v, number * l->dv);
    h.out = fv_element(c->p[FV_SOFTMAX_OUT], h.type_out, number * l->dv);
    return h;
}

/* Rows [from, from + rows) of keys or values, to be fetched with so many register tiles. */
static ahead rows_ahead(const char *base, enum fv_type type, size_t ld, size_t width, size_t from,
                        size_t rows, size_t tiles)
{
    const size_t size = fv_type_size(type);
    return (ahead){base + from * ld * size, ld * size, width * size, rows,
                   (rows + tiles - 1) / tiles};
}

/* What to prefetch of the tile at key `from` while `queries` rows attend to the tile before it. */
static tile_ahead ahead_of(const head *h, const layout *l, size_t from, size_t seen, size_t queries)
{
    if (from >= seen)
        return (tile_ahead){0};
    const size_t rows = seen - from < l->tile ? seen - from : l->tile;
    const size_t blocks = fv_tile_round(queries, FV_TILE_COLS) / FV_TILE_COLS;
    return (tile_ahead){
        rows_ahead(h->k, h->type_k, h->ld_k, l->d, from, rows, blocks * (l->tilep / FV_TILE_M)),
        rows_ahead(h->v, h->type_v, h->ld_v, l->dv, from, rows, blocks * (l->dvp / FV_TILE_M))};
}

/* Keys [j, j + n) and their values. */
static void pack_tile(float *scratch, const layout *l, const head *h, size_t j, size_t n)
{
    fv_factor *keys = (fv_factor *)(scratch + l->keys);
    fv_factor_pack_rows(keys, l->dp, fv_element(h->k, h->type_k, j * h->ld_k), h->type_k, h->ld_k,
                        n, l->d);
    memset(keys + n * l->dp, 0, (fv_tile_round(n, FV_TILE_M) - n) * l->dp * sizeof *keys);
    fv_factor_pack_depth((fv_factor *)(scratch + l->values), l->ld_v,
                         fv_element(h->v, h->type_v, j * h->ld_v), h->type_v, h->ld_v, n, l->dv);
}

/* Queries [first, first + rows) of a call and one head against all keys that they see. */
static void attend_panel(const fv_args *a, const fv_call *c, const layout *l, size_t first,
                         size_t rows, size_t number)
{
    const head h = head_of(a, c, l, number);
    float *const scratch = c->scratch;
    const bool causal = a->prob.flags & FV_FLAG_CAUSAL;
    const size_t row0 = c->row0 + first;
    const float scale = a->f[0] * 1.44269504f;
    size_t seen = a->prob.dim[FV_ATTN_KEYS];
    if (causal && row0 + rows < seen)
        seen = row0 + rows;

    pack_queries(scratch, l, fv_element(h.q, h.type_q, first * h.ld_q), h.type_q, h.ld_q, rows,
                 scale);
    memset(scratch + l->ot, 0, l->queries * l->dvp * sizeof *scratch);
    for (size_t r = 0; r < l->queries; r++) {
        scratch[l->max + r] = -INFINITY;
        scratch[l->sum + r] = 0.f;
    }
    for (size_t j = 0; j < seen; j += l->tile) {
        const size_t n = seen - j < l->tile ? seen - j : l->tile;
        pack_tile(scratch, l, &h, j, n);
        tile_ahead next = ahead_of(&h, l, j + n, seen, rows);
        for (size_t r = 0; r < rows; r += FV_TILE_COLS) {
            const size_t last = causal ? row0 + r : SIZE_MAX;
            if (causal && j >= last + FV_TILE_COLS)
                continue; /* all keys are masked */
            if (FV_TILE_N > 2 && rows - r > 2 * FV_W)
                attend_tile(l, scratch, r, j, n, last, FV_TILE_N, scale, &next);
            else if (rows - r > FV_W)
                attend_tile(l, scratch, r, j, n, last, 2, scale, &next);
            else
                attend_tile(l, scratch, r, j, n, last, 1, scale, &next);
        }
    }
    write_out(fv_element(h.out, h.type_out, first * h.ld_out), h.type_out, h.ld_out, l, scratch,
              rows);
}

static void attend(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, &a->knobs, c->rows);
    for (size_t first = 0; first < c->rows; first += PANEL) {
        size_t rows = c->rows - first < PANEL ? c->rows - first : PANEL;
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
            attend_panel(a, c, &l, first, rows, h);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    return lay_out(p, k, rows).floats * sizeof(float);
}

static const fv_knob knobs[] = {{"keys", {64, 32, 128, 256}, 4}, {0}};

#endif
