/* softmax_tmpl.c: SOFTMAX attention over the vector vocabulary.
 *
 * Queries lie across the lanes, so that maximum, sum and rescaling need no work across lanes, no
 * key has to be transposed, and a query's arithmetic does not depend on its place in a call:
 *
 *   for a panel of queries, for each head:             Qt [d][queries], scaled, with log2(e)
 *     for each tile of keys, copied to packed K, V:
 *       for each block of FV_TILE_COLS queries:        S  = K Qt          [keys][queries]
 *                                                      m' = max(m, S), P = 2^(S - m')
 *                                                      l  = 2^(m - m') l + sum P
 *                                                      Ot = 2^(m - m') Ot + Vt P   [dv][queries]
 *     out = (Ot / l) transposed
 */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/tile.h"

#include <stdbool.h>
#include <string.h>

enum { PANEL = 256 }; /* queries whose Qt and Ot stay in L2 */

/* Sizes of a problem and the parts of its scratch. */
typedef struct layout {
    size_t d, dv, dvp; /* dvp: dv rounded up to the register tile */
    size_t tile, tilep;
    size_t queries; /* of a panel, rounded up to whole blocks */
    size_t qt, ot, max, sum, keys, values, scores, floats;
} layout;

static layout lay_out(const fv_problem *p, const fv_knobs *k, size_t rows)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV], .tile = k->v[0]};
    l.dvp = fv_tile_round(l.dv, FV_TILE_M);
    l.tilep = fv_tile_round(l.tile, FV_TILE_M);
    l.queries = fv_tile_round(rows < PANEL ? rows : PANEL, FV_TILE_COLS);
    l.ot = l.qt + l.queries * l.d;
    l.max = l.ot + l.queries * l.dvp;
    l.sum = l.max + l.queries;
    l.scores = l.sum + l.queries;
    l.keys = l.scores + l.tilep * FV_TILE_COLS;
    l.values = l.keys + l.tilep * l.d;
    l.floats = l.values + l.tile * l.dvp;
    return l;
}

/* Query r of a panel is lane r % FV_TILE_COLS of block r / FV_TILE_COLS. */
static void pack_queries(float *qt, const layout *l, const float *q, size_t ld, size_t rows,
                         float scale)
{
    memset(qt, 0, l->queries * l->d * sizeof *qt);
    for (size_t r = 0; r < rows; r++) {
        float *lane = qt + r / FV_TILE_COLS * FV_TILE_COLS * l->d + r % FV_TILE_COLS;
        for (size_t i = 0; i < l->d; i++)
            lane[i * FV_TILE_COLS] = q[r * ld + i] * scale;
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

/* Keys and values of the next tile, which are prefetched into L2: their rows lie too far apart for
 * hardware prefetchers. */
typedef struct ahead {
    const float *k, *v;
    size_t ld_k, ld_v, d, dv;
    size_t rows, at_once; /* left; to be fetched with each register tile of scores */
} ahead;

static void fetch(const float *row, size_t width)
{
    enum { LINE = 16 };
    for (size_t i = 0; i < width; i += LINE)
        __builtin_prefetch(row + i, 0, 2);
}

static void fetch_ahead(ahead *next)
{
    for (size_t i = 0; i < next->at_once && next->rows > 0; i++, next->rows--) {
        fetch(next->k, next->d);
        fetch(next->v, next->dv);
        next->k += next->ld_k;
        next->v += next->ld_v;
    }
}

/* S = K Qt of the first `vecs` vectors of a block and n keys; whole tiles of keys, those beyond n
 * are zero. */
FV_FN void score(float *s, const float *keys, const float *qt, size_t d, size_t n, int vecs,
                 ahead *next)
{
    for (size_t j = 0; j < n; j += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        fetch_ahead(next);
        fv_tile_cols(acc, vecs, keys + j * d, d, 1, qt, FV_TILE_COLS, d);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                fv_store(s + (j + i) * FV_TILE_COLS + v * FV_W, acc[i][v]);
        }
    }
}

/* Turns scores into weights; `fade` rescales everything that was summed before. */
FV_FN void exponentiate(fv_v fade[FV_TILE_N], float *s, float *max, float *sum, size_t n, int vecs)
{
    fv_v top[FV_TILE_N], add[FV_TILE_N];
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        top[v] = fv_load(max + v * FV_W);
        add[v] = fv_set(0.f);
    }
    for (size_t j = 0; j < n; j++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            top[v] = fv_max(top[v], fv_load(s + j * FV_TILE_COLS + v * FV_W));
    }
    for (size_t j = 0; j < n; j++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = s + j * FV_TILE_COLS + v * FV_W;
            fv_v p = fv_exp2_neg(fv_sub(fv_load(at), top[v]));
            fv_store(at, p);
            add[v] = fv_add(add[v], p);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++) {
        fade[v] = fv_exp2_neg(fv_sub(fv_load(max + v * FV_W), top[v]));
        fv_store(max + v * FV_W, top[v]);
        fv_store(sum + v * FV_W, fv_fma(fv_load(sum + v * FV_W), fade[v], add[v]));
    }
}

/* Ot = fade Ot + Vt P */
FV_FN void accumulate_values(float *ot, fv_v fade[FV_TILE_N], const float *values, size_t dvp,
                             const float *p, size_t n, int vecs)
{
    for (size_t i0 = 0; i0 < dvp; i0 += FV_TILE_M) {
        fv_v acc[FV_TILE_M][FV_TILE_N];
        fv_tile_cols(acc, vecs, values + i0, 1, dvp, p, FV_TILE_COLS, n);
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

/* The block of queries at row r of a panel and the packed tile of n keys from key0 on; of a block
 * with few queries only `vecs` vectors. Its first query sees the keys up to `last`, each other one
 * more. */
FV_FN void attend_tile(const layout *l, float *scratch, size_t r, size_t key0, size_t n,
                       size_t last, int vecs, ahead *next)
{
    float *s = scratch + l->scores;
    fv_v fade[FV_TILE_N];
    score(s, scratch + l->keys, scratch + l->qt + r * l->d, l->d, n, vecs, next);
    if (last != SIZE_MAX)
        mask_future(s, n, key0, last);
    exponentiate(fade, s, scratch + l->max + r, scratch + l->sum + r, n, vecs);
    accumulate_values(scratch + l->ot + r * l->dvp, fade, scratch + l->values, l->dvp, s, n, vecs);
}

static void write_out(float *out, size_t ld, const layout *l, const float *ot, const float *sum,
                      size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const float *lane = ot + r / FV_TILE_COLS * FV_TILE_COLS * l->dvp + r % FV_TILE_COLS;
        const float part = 1.f / sum[r];
        for (size_t i = 0; i < l->dv; i++)
            out[r * ld + i] = lane[i * FV_TILE_COLS] * part;
    }
}

/* What to prefetch of the tile at key `from` while `queries` rows attend to the tile before it. */
static ahead ahead_of(const fv_args *a, const layout *l, const float *k, const float *v,
                      size_t from, size_t seen, size_t queries)
{
    ahead next = {.ld_k = a->ld[FV_SOFTMAX_K], .ld_v = a->ld[FV_SOFTMAX_V], .d = l->d, .dv = l->dv};
    if (from >= seen)
        return next;
    const size_t blocks = fv_tile_round(queries, FV_TILE_COLS) / FV_TILE_COLS;
    const size_t tiles = blocks * (l->tilep / FV_TILE_M);
    next.k = k + from * next.ld_k;
    next.v = v + from * next.ld_v;
    next.rows = seen - from < l->tile ? seen - from : l->tile;
    next.at_once = (next.rows + tiles - 1) / tiles;
    return next;
}

/* Queries [first, first + rows) of a call and one head against all keys that they see. */
static void attend_panel(const fv_args *a, const fv_call *c, const layout *l, size_t first,
                         size_t rows, size_t head)
{
    const float *q = (const float *)c->p[FV_SOFTMAX_Q] + first * a->ld[FV_SOFTMAX_Q] + head * l->d;
    const float *k = (const float *)c->p[FV_SOFTMAX_K] + head * l->d;
    const float *v = (const float *)c->p[FV_SOFTMAX_V] + head * l->dv;
    float *out = (float *)c->p[FV_SOFTMAX_OUT] + first * a->ld[FV_SOFTMAX_OUT] + head * l->dv;
    float *const scratch = c->scratch, *keys = scratch + l->keys, *values = scratch + l->values;
    float *ot = scratch + l->ot, *sum = scratch + l->sum;
    const bool causal = a->prob.flags & FV_FLAG_CAUSAL;
    const size_t row0 = c->row0 + first;
    size_t seen = a->prob.dim[FV_ATTN_KEYS];
    if (causal && row0 + rows < seen)
        seen = row0 + rows;

    pack_queries(scratch + l->qt, l, q, a->ld[FV_SOFTMAX_Q], rows, a->f[0] * 1.44269504f);
    memset(ot, 0, l->queries * l->dvp * sizeof *ot);
    for (size_t r = 0; r < l->queries; r++) {
        scratch[l->max + r] = -INFINITY;
        sum[r] = 0.f;
    }
    for (size_t j = 0; j < seen; j += l->tile) {
        const size_t n = seen - j < l->tile ? seen - j : l->tile;
        fv_tile_pack(keys, l->d, k + j * a->ld[FV_SOFTMAX_K], a->ld[FV_SOFTMAX_K], n, l->d);
        memset(keys + n * l->d, 0, (fv_tile_round(n, FV_TILE_M) - n) * l->d * sizeof *keys);
        fv_tile_pack(values, l->dvp, v + j * a->ld[FV_SOFTMAX_V], a->ld[FV_SOFTMAX_V], n, l->dv);
        ahead next = ahead_of(a, l, k, v, j + n, seen, rows);
        for (size_t r = 0; r < rows; r += FV_TILE_COLS) {
            const size_t last = causal ? row0 + r : SIZE_MAX;
            if (causal && j >= last + FV_TILE_COLS)
                continue; /* all keys are masked */
            if (rows - r > FV_W)
                attend_tile(l, scratch, r, j, n, last, FV_TILE_N, &next);
            else
                attend_tile(l, scratch, r, j, n, last, 1, &next);
        }
    }
    write_out(out, a->ld[FV_SOFTMAX_OUT], l, ot, sum, rows);
}

void FV_NAME(fv_k_softmax_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, &a->knobs, c->rows);
    for (size_t first = 0; first < c->rows; first += PANEL) {
        size_t rows = c->rows - first < PANEL ? c->rows - first : PANEL;
        for (size_t head = c->col0; head < (size_t)c->col0 + c->cols; head++)
            attend_panel(a, c, &l, first, rows, head);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    return lay_out(p, k, rows).floats * sizeof(float);
}

static const fv_knob knobs[] = {{"keys", {64, 32, 128, 256}, 4}, {0}};

const fv_kernel_hooks FV_NAME(fv_h_softmax_f32) = {
    .rate = FV_W * 6e9, .scratch = scratch_bytes, .knobs = knobs};
