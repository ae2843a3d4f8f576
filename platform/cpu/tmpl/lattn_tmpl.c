/* lattn_tmpl.c: LATTN_REDUCE, LATTN_MERGE, LATTN_APPLY and WLATTN over the vector vocabulary, with
 * the features and the normalisation of one mechanism: src/mech/<FV_MECHANISM>.h.
 *
 * A block of rows is mapped to features, in cache; then products of them with the values, or with
 * the state, go through the register tile. Whether a mechanism has blocks, statistics or a shift is
 * known when this is compiled, so what it does not have costs nothing.
 *
 * With FV_FACTORS_BF16 these products are of bfloat16, and LATTN_REDUCE, LATTN_APPLY and WLATTN are
 * all that is compiled: a state is the same, and so is its merging. */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/feature_maps.h"
#include "platform/cpu/vec/fetch.h"
#include "platform/cpu/vec/math.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "mech/mech.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_wlattn.h"
#include "platform/cpu/tmpl/lattn_factors.h"
#include "platform/cpu/tmpl/lattn_rows.h"
#include "platform/cpu/tmpl/rotation.h"

enum {
    BLOCK = 192,               /* rows whose features and values stay in L1 and L2 */
    SUMS = !CENTRED && !SHIFT, /* states are sums, and a block is added to one as it is */
    /* Vectors of a key that are mapped together: a row is on a page of its own, and is visited
     * once, as long as the sums of its features stay in registers. */
    VECTORS = FV_REGS >= 32 ? 4 : 2,
};

/* Widths: dp is d rounded up, `width` that of a row of features; the values of stream s lie packed
 * from column s * streamp on. Then the parts of a call's scratch, in floats; features and `right`
 * are factors. stat[1] is of queries. */
typedef struct layout {
    size_t heads, d, dv, dp, width, stream, streamp, dvp;
    fv_lattn_state state;
    size_t param, stat[2], turn, features, right, part, m, w, vmean, shift, floats;
} layout;

/* Floats of scratch that n factors take, an even number. */
FV_FN size_t floats_of(size_t n)
{
    return sizeof(factor) == sizeof(float) ? n : n / 2;
}

FV_FN factor *factors(float *scratch, size_t at)
{
    return (factor *)(void *)(scratch + at);
}

static layout lay_out(const fv_problem *p, size_t rows)
{
    layout l = {.heads = p->heads, .d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    l.dp = fv_tile_round(l.d, FV_W > FV_TILE_M ? FV_W : FV_TILE_M);
    l.width = FV_BLOCKS * l.dp;
    l.stream = l.dv / FV_STREAMS;
    l.streamp = fv_tile_round(l.stream, FV_W);
    l.dvp = fv_tile_round(FV_STREAMS * l.streamp, FV_TILE_COLS);
    l.state = fv_lattn_layout(FV_BLOCKS, FV_WANTS, (uint32_t)l.d, (uint32_t)l.dv);
    l.stat[0] = l.param + l.heads * FV_PARAMS * l.dp;
    l.stat[1] = l.stat[0] + (FV_STAT_WIDE ? FV_STATS_KEY * rows : 0);
    l.turn = l.stat[1] + (FV_STAT_WIDE ? FV_STATS * rows : 0);
    l.features = l.turn + (p->flags & FV_FLAG_ROPE ? rotation_joined(rows, l.d) : 0);
    l.right = l.features + floats_of(BLOCK * l.width);
    l.part = l.right + floats_of((l.width > BLOCK ? l.width : BLOCK) * l.dvp);
    l.m = l.part + l.state.floats;
    l.w = l.m + l.width;
    l.vmean = l.w + l.width;
    l.shift = l.vmean + l.dvp;
    l.floats = l.shift + l.dp;
    return l;
}

/* ---- what REDUCE and APPLY share ---- */

/* The rows to prefetch while rows [r, r + n) are computed: the head's next rows, else the next
 * head's, else those of the next call. */
FV_FN const void *after(const fv_call *c, const void *x, enum fv_type type, size_t ld, size_t d,
                        size_t head, size_t r, size_t n)
{
    if (r + n < c->rows)
        return fv_element(x, type, (r + n) * ld + head * d);
    if (head + 1 < (size_t)c->col0 + c->cols)
        return fv_element(x, type, (head + 1) * d);
    return fv_element(x, type, c->rows * ld + c->col0 * d);
}

/* A call's rows in blocks of nearly equal size. */
static size_t block_rows(size_t rows)
{
    const size_t blocks = (rows + BLOCK - 1) / BLOCK;
    return (rows + blocks - 1) / blocks;
}

/* Statistics over all heads are the same for each: they are taken before the first. */
FV_FN void statistics_of_all_heads(float *scratch, const layout *l, int query, const void *x,
                                   enum fv_type type, size_t ld, size_t rows, fv_v alpha)
{
    float *stat = scratch + l->stat[query];
    const source s = {.x = x,
                      .ld = ld,
                      .type = type,
                      .param = scratch + l->param,
                      .dp = l->dp,
                      .stat = stat,
                      .statld = rows};
    if (FV_STAT_WIDE)
        row_statistics(stat, &s, query, rows, l->heads, l->d, alpha);
}

/* ---- states ---- */

/* Merges the state `p` into `s`.
 *
 * CENTRED: with `n` and `np` tokens, S about the mean of both is S + S' + u^T (vmean' - vmean),
 * u = (n w' - np w) / (n + np): all differences are taken before anything is multiplied. */
static void merge_state(float *s, const float *p, const layout *l)
{
    const fv_lattn_state *at = &l->state;
    float rate = 0.f, rate_p = 0.f;
    if (CENTRED) {
        rate = s[at->count] / (s[at->count] + p[at->count]);
        rate_p = p[at->count] / (s[at->count] + p[at->count]);
    }
    const size_t width = FV_BLOCKS * l->d;
    for (size_t i = 0; i < width; i += FV_W) {
        const int n = fv_lanes(width - i);
        float fade[FV_W], fade_p[FV_W], u[FV_W];
        fv_v m = fv_load_n(s + at->m + i, n), m_p = fv_load_n(p + at->m + i, n);
        if (SHIFT) {
            const fv_v x = fv_load_n(s + at->shift + i, n), y = fv_load_n(p + at->shift + i, n);
            const fv_v top = fv_max(x, y);
            const fv_v f = fv_exp(fv_sub(x, top)), f_p = fv_exp(fv_sub(y, top));
            fv_store(fade, f);
            fv_store(fade_p, f_p);
            fv_store_n(s + at->shift + i, top, n);
            m = fv_mul(m, f);
            m_p = fv_mul(m_p, f_p);
        }
        fv_store_n(s + at->m + i, fv_add(m, m_p), n);
        if (CENTRED) {
            const fv_v w = fv_load_n(s + at->w + i, n), w_p = fv_load_n(p + at->w + i, n);
            fv_store(u, fv_sub(fv_mul(fv_set(rate), w_p), fv_mul(fv_set(rate_p), w)));
            fv_store_n(s + at->w + i, fv_add(w, w_p), n);
        }
        for (size_t j = 0; j < l->dv; j += FV_W) {
            const int nv = fv_lanes(l->dv - j);
            fv_v apart = fv_set(0.f);
            if (CENTRED)
                apart = fv_sub(fv_load_n(p + at->vmean + j, nv), fv_load_n(s + at->vmean + j, nv));
            for (int r = 0; r < n; r++) {
                const size_t cell = at->s + (i + (size_t)r) * l->dv + j;
                fv_v x = fv_load_n(s + cell, nv), y = fv_load_n(p + cell, nv);
                if (SHIFT) {
                    x = fv_mul(x, fv_set(fade[r]));
                    y = fv_mul(y, fv_set(fade_p[r]));
                }
                x = fv_add(x, y);
                if (CENTRED)
                    x = fv_fma(fv_set(u[r]), apart, x);
                fv_store_n(s + cell, x, nv);
            }
        }
    }
    for (size_t j = 0; CENTRED && j < l->dv; j += FV_W) {
        const int n = fv_lanes(l->dv - j);
        const fv_v x = fv_load_n(s + at->vmean + j, n), y = fv_load_n(p + at->vmean + j, n);
        fv_store_n(s + at->vmean + j, fv_fma(fv_set(rate_p), fv_sub(y, x), x), n);
    }
    if (CENTRED)
        s[at->count] += p[at->count];
}

#if !FV_FACTORS_BF16
void KERNEL(fv_k_lattn_merge)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, 0);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *partial = (const float *)c->p[FV_MERGE_PARTIAL] + h * l.state.floats;
        float *state = (float *)c->p[FV_MERGE_STATE] + h * l.state.floats;
        memcpy(state, partial, l.state.floats * sizeof *state);
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            merge_state(state, partial + g * l.heads * l.state.floats, &l);
    }
}
#endif

/* ---- REDUCE ---- */

/* Keys of one head, in blocks. */
typedef struct keys {
    source k;
    const void *v, *next_v;
    enum fv_type type_v;
    const float *gate; /* NULL: there are none */
    size_t ldv, ldg;
    rotation turn; /* cos NULL: none */
    float mean;    /* 1 / keys */
    bool shifted;
    bool add; /* SUMS: to what is in the state */
} keys;

FV_FN void put(float *y, fv_v x, int n, bool add)
{
    fv_store_n(y, add ? fv_add(fv_load_n(y, n), x) : x, n);
}

/* Packs values minus their mean in float32; `rest` is the mean of what rounding leaves, with which
 * S is corrected: of the factors that are multiplied, while the mean of the values does not take
 * part in their rounding. */
static void centre_values(factor *right, float *rest, float *state, const layout *l, const keys *s,
                          size_t rows)
{
    const enum fv_type type = stored(s->type_v);
    const fv_v share = fv_set(1.f / (float)rows);
    for (size_t j = 0; j < l->dvp; j += FV_TILE_COLS) {
        fv_v sum[FV_TILE_N], left[FV_TILE_N], kept[FV_TILE_N];
        int n[FV_TILE_N];
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++) {
            const size_t col = j + (size_t)c * FV_W;
            n[c] = col < l->dv ? fv_lanes(l->dv - col) : 0;
            sum[c] = left[c] = kept[c] = fv_set(0.f);
        }
        for (size_t r = 0; r < rows; r++) {
            const void *row = fv_element(s->v, type, r * s->ldv);
            FV_UNROLL
            for (int c = 0; c < FV_TILE_N; c++)
                sum[c] = fv_add(sum[c], load_channels(row, type, j + (size_t)c * FV_W, n[c]));
        }
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++)
            sum[c] = fv_mul(sum[c], share);
        for (size_t r = 0; r < rows; r += PAIR) {
            const void *row = fv_element(s->v, type, r * s->ldv);
            FV_UNROLL
            for (int c = 0; c < FV_TILE_N; c++) {
                const size_t col = j + (size_t)c * FV_W;
                fv_v x[PAIR];
                FV_UNROLL
                for (size_t p = 0; p < PAIR; p++) {
                    x[p] = fv_set(0.f);
                    if (r + p < rows)
                        x[p] = fv_sub(
                            load_channels(fv_element(row, type, p * s->ldv), type, col, n[c]),
                            sum[c]);
                    left[c] = fv_add(left[c], x[p]);
                    if (FV_FACTORS_BF16)
                        kept[c] = fv_add(kept[c], rounded(x[p]));
                }
                put_depth(right, l->dvp, r, col, x);
            }
        }
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++) {
            left[c] = fv_mul(left[c], share);
            fv_store(rest + j + c * FV_W, FV_FACTORS_BF16 ? fv_mul(kept[c], share) : left[c]);
            fv_store_n(state + l->state.vmean + j + c * FV_W, fv_add(sum[c], left[c]), n[c]);
        }
    }
    state[l->state.count] = (float)rows;
}

/* Features of `vectors` vectors of channels from i on, the last of n channels, of a block of keys;
 * and their means in the state: m before the rotation, w after it. With the first channels values
 * are packed, unless their mean is needed first: their loads overlap with phi. */
FV_FN void map_channels(factor *features, factor *right, float *state, const layout *l,
                        const keys *s, size_t rows, size_t i, int vectors, int n, bool turned,
                        bool gated)
{
    const enum fv_type type = stored(s->k.type);
    const void *x = s->k.x, *next = s->k.next;
    const float *gate = s->gate;
    const fv_v mean = fv_set(s->mean);
    fv_v m[VECTORS][FV_BLOCKS], w[VECTORS][FV_BLOCKS], pair[VECTORS][FV_BLOCKS][PAIR];
    angles turn = turned ? angles_first(&s->turn) : (angles){0};
    FV_UNROLL
    for (int c = 0; c < vectors; c++) {
        FV_UNROLL
        for (int b = 0; b < FV_BLOCKS; b++)
            m[c][b] = w[c][b] = pair[c][b][0] = fv_set(0.f);
    }
    for (size_t r = 0; r < rows; r++, features += l->width) {
        if (!CENTRED && i == 0)
            pack_depth(right, l->dvp, r, s->v, stored(s->type_v), s->ldv, rows, l->dv);
        FV_UNROLL
        for (int c = 0; c < vectors; c++) {
            const size_t at = i + (size_t)c * FV_W;
            fv_v f[FV_BLOCKS];
            fv_fetch(fv_element(next, type, at));
            map(f, &s->k, 0, x, r, at, c + 1 < vectors ? FV_W : n);
            FV_UNROLL
            for (int b = 0; b < FV_BLOCKS; b++) {
                if (gated)
                    f[b] = fv_mul(f[b], fv_set(gate[r * s->ldg]));
                m[c][b] = fv_add(m[c][b], f[b]);
                if (turned) {
                    f[b] = rotate(f[b], &turn, s->turn.split, at, c + 1 < vectors ? FV_W : n);
                    w[c][b] = fv_add(w[c][b], f[b]);
                }
                pair[c][b][r % PAIR] = f[b];
                if (r % PAIR == PAIR - 1)
                    put_depth(features - r % PAIR * l->width, l->width, 0, b * l->dp + at,
                              pair[c][b]);
            }
        }
        if (turned)
            angles_next(&turn, &s->turn);
        x = fv_element(x, type, s->k.ld);
        next = fv_element(next, type, s->k.ld);
    }
    FV_UNROLL
    for (int c = 0; c < vectors; c++) {
        const size_t at = i + (size_t)c * FV_W;
        const int lanes_at = c + 1 < vectors ? FV_W : n;
        FV_UNROLL
        for (int b = 0; b < FV_BLOCKS; b++) {
            if (rows % PAIR) {
                pair[c][b][PAIR - 1] = fv_set(0.f);
                put_depth(features - l->width, l->width, 0, b * l->dp + at, pair[c][b]);
            }
            put(state + l->state.m + b * l->d + at, fv_mul(m[c][b], mean), lanes_at, s->add);
            if (CENTRED)
                fv_store_n(state + l->state.w + b * l->d + at,
                           fv_mul(turned ? w[c][b] : m[c][b], mean), lanes_at);
        }
    }
}

FV_FN void map_keys(factor *features, factor *right, float *state, const layout *l, const keys *s,
                    size_t rows, bool turned, bool gated)
{
    size_t i = 0;
    for (; i + VECTORS * FV_W <= l->d; i += VECTORS * FV_W)
        map_channels(features, right, state, l, s, rows, i, VECTORS, FV_W, turned, gated);
    for (; i < l->dp; i += FV_W)
        map_channels(features, right, state, l, s, rows, i, 1, i < l->d ? fv_lanes(l->d - i) : 0,
                     turned, gated);
}

/* The running maximum of every channel. */
static void update_shift(float *shift, float *state, const layout *l, const source *k, size_t rows,
                         bool shifted)
{
    const enum fv_type type = stored(k->type);
    for (size_t i = 0; i < l->dp; i += FV_W) {
        const int n = i < l->d ? fv_lanes(l->d - i) : 0;
        fv_v top = fv_set(shifted ? -FLT_MAX : 0.f);
        for (size_t r = 0; shifted && r < rows; r++)
            top = fv_max(top, load_channels(fv_element(k->x, type, r * k->ld), type, i, n));
        fv_store(shift + i, top);
        fv_store_n(state + l->state.shift + i, top, n);
    }
}

/* S of a block of at most BLOCK rows of one head. */
static void multiply(float *state, const factor *features, const factor *right, const float *rest,
                     const layout *l, const keys *s, size_t rows)
{
    const size_t depth = fv_tile_round(rows, PAIR);
    const size_t tiles = (l->dv + FV_TILE_COLS - 1) / FV_TILE_COLS * (l->width / FV_TILE_M);
    const fv_v mean = fv_set(s->mean);
    size_t tile = 0;
    for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
        for (size_t i = 0; i < l->width; i += FV_TILE_M) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            multiply_tile(acc, features + PAIR * i, PAIR, l->width, right + PAIR * j, l->dvp,
                          depth);
            fv_fetch_rows_of(s->next_v, stored(s->type_v), s->ldv, rows * tile / tiles,
                             rows * (tile + 1) / tiles, l->dv);
            tile++;
            const size_t block = i / l->dp, channel = i % l->dp;
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                if (channel + r >= l->d)
                    break;
                const size_t row = block * l->d + channel + r;
                FV_UNROLL
                for (int c = 0; c < FV_TILE_N; c++) {
                    const size_t col = j + (size_t)c * FV_W;
                    fv_v x = fv_mul(mean, acc[r][c]);
                    if (CENTRED)
                        x = fv_fma(fv_neg(fv_set(state[l->state.w + row])), fv_load(rest + col), x);
                    if (col < l->dv)
                        put(state + l->state.s + row * l->dv + col, x, fv_lanes(l->dv - col),
                            s->add);
                }
            }
        }
    }
}

/* The state of one block of keys alone. */
static void reduce_block(float *state, float *scratch, const layout *l, const keys *s, size_t rows)
{
    factor *features = factors(scratch, l->features), *right = factors(scratch, l->right);
    float stat[(FV_STATS_KEY + AT_LEAST_1) * BLOCK];
    keys block = *s;
    if (CENTRED)
        centre_values(right, scratch + l->vmean, state, l, s, rows);
    if (SHIFT) {
        update_shift(scratch + l->shift, state, l, &s->k, rows, s->shifted);
        block.k.shift = scratch + l->shift;
    }
    if (!FV_STAT_WIDE) {
        block.k.stat = stat;
        block.k.statld = BLOCK;
        row_statistics(stat, &block.k, 0, rows, 1, l->d, fv_set(0.f));
    }
    if (s->turn.cos && s->gate)
        map_keys(features, right, state, l, &block, rows, true, true);
    else if (s->turn.cos)
        map_keys(features, right, state, l, &block, rows, true, false);
    else if (s->gate)
        map_keys(features, right, state, l, &block, rows, false, true);
    else
        map_keys(features, right, state, l, &block, rows, false, false);
    multiply(state, features, right, scratch + l->vmean, l, s, rows);
}

/* A call's rows of one head into its state. Parameters and wide statistics are in the scratch. */
static void reduce_head(float *state, const fv_args *a, const fv_call *c, const layout *l,
                        const rotation *turn, size_t h)
{
    const uint32_t flags = a->prob.flags;
    const enum fv_type type = stored(a->type[FV_REDUCE_K]), type_v = stored(a->type[FV_REDUCE_V]);
    const void *k = c->p[FV_REDUCE_K], *v = c->p[FV_REDUCE_V];
    const float *gate = c->p[FV_REDUCE_GATE];
    float *scratch = c->scratch;
    const size_t rows = block_rows(c->rows);
    keys s = {.k = {.x = fv_element(k, type, h * l->d),
                    .ld = a->ld[FV_REDUCE_K],
                    .type = type,
                    .param = scratch + l->param + h * FV_PARAMS * l->dp,
                    .dp = l->dp,
                    .stat = scratch + l->stat[0],
                    .statld = c->rows},
              .v = fv_element(v, type_v, h * l->dv),
              .type_v = type_v,
              .ldv = a->ld[FV_REDUCE_V],
              .gate = flags & FV_FLAG_GATED ? gate + h : NULL,
              .ldg = a->ld[FV_REDUCE_GATE],
              .turn = *turn,
              .mean = a->f[0],
              .shifted = !(flags & FV_FLAG_UNNORMALISED)};
    for (size_t r = 0; r < c->rows; r += rows) {
        const bool fresh = c->first && r == 0;
        const size_t n = c->rows - r < rows ? c->rows - r : rows;
        float *to = fresh || SUMS ? state : scratch + l->part;
        s.add = SUMS && !fresh;
        s.k.next = after(c, k, type, s.k.ld, l->d, h, r, n);
        s.next_v = after(c, v, type_v, s.ldv, l->dv, h, r, n);
        reduce_block(to, scratch, l, &s, n);
        if (!fresh && !SUMS)
            merge_state(state, to, l);
        s.k.x = fv_element(s.k.x, type, n * s.k.ld);
        s.k.stat += FV_STAT_WIDE ? n : 0;
        s.v = fv_element(s.v, type_v, n * s.ldv);
        s.gate += s.gate ? n * s.ldg : 0;
        if (s.turn.cos)
            rotation_move(&s.turn, n);
    }
}

void KERNEL(fv_k_lattn_reduce)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const fv_v alpha = fv_set(a->f[1]);
    const rotation turn =
        rotation_at(a, c, FV_REDUCE_COS, FV_REDUCE_SIN, l.d, (float *)c->scratch + l.turn);
    finish_params((float *)c->scratch + l.param, c->p[FV_REDUCE_PARAM], l.heads, l.d, l.dp, alpha);
    statistics_of_all_heads(c->scratch, &l, 0, c->p[FV_REDUCE_K], a->type[FV_REDUCE_K],
                            a->ld[FV_REDUCE_K], c->rows, alpha);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
        reduce_head((float *)c->p[FV_REDUCE_PARTIAL] + h * l.state.floats, a, c, &l, &turn, h);
}

/* ---- APPLY ---- */

/* Queries of one head, and where their results go. */
typedef struct queries {
    source q;
    const float *gate;
    size_t ldg;
    rotation turn;
    void *out;
    enum fv_type type_out;
    size_t ldo;
    float eps;
    bool plain; /* not normalised */
} queries;

/* Per row of a block: z of each stream, w; then out = scale o + mean vmean. */
typedef struct weights {
    float z[FV_STREAMS][BLOCK], w[BLOCK];
    float scale[FV_STREAMS][BLOCK], mean[BLOCK];
    float stat[FV_STATS + AT_LEAST_1][BLOCK];
} weights;

/* y = x by, n values, zeros up to np. */
static void scale_to(float *y, const float *x, size_t n, size_t np, fv_v by)
{
    for (size_t i = 0; i < np; i += FV_W)
        fv_store(y + i, fv_mul(by, fv_load_n(x + i, i < n ? fv_lanes(n - i) : 0)));
}

/* The part of stream s in a pair of channels, the first of which is at x, or in `left` if that is
 * less; times `by`. */
static void pack_channels(factor *pair, const layout *l, size_t s, const float *x, size_t left,
                          fv_v by)
{
    const size_t width = s + 1 < FV_STREAMS ? l->streamp : l->dvp - s * l->streamp;
    for (size_t j = 0; j < width; j += FV_W) {
        const int n = j < l->stream ? fv_lanes(l->stream - j) : 0;
        fv_v step[PAIR];
        FV_UNROLL
        for (size_t p = 0; p < PAIR; p++)
            step[p] = p < left ? fv_mul(by, fv_load_n(x + p * l->dv + j, n)) : fv_set(0.f);
        put_depth(pair, l->dvp, 0, s * l->streamp + j, step);
    }
}

/* Packs the state of a head, times `scale`, for the products. */
static void pack_state(float *scratch, const layout *l, const float *state, float scale)
{
    const fv_v by = fv_set(scale);
    for (size_t b = 0; b < FV_BLOCKS; b++) {
        for (size_t i = 0; i < l->dp; i += PAIR) {
            factor *pair = factors(scratch, l->right) + (b * l->dp + i) * l->dvp;
            if (i >= l->d) {
                memset(pair, 0, PAIR * l->dvp * sizeof *pair);
                continue;
            }
            for (size_t s = 0; s < FV_STREAMS; s++)
                pack_channels(pair, l, s,
                              state + l->state.s + ((b ^ s) * l->d + i) * l->dv + s * l->stream,
                              l->d - i, by);
        }
        scale_to(scratch + l->m + b * l->dp, state + l->state.m + b * l->d, l->d, l->dp, by);
        if (CENTRED)
            scale_to(scratch + l->w + b * l->dp, state + l->state.w + b * l->d, l->d, l->dp, by);
    }
    if (CENTRED)
        scale_to(scratch + l->vmean, state + l->state.vmean, l->dv, l->dvp, fv_set(1.f));
    if (SHIFT)
        scale_to(scratch + l->shift, state + l->state.shift, l->d, l->dp, fv_set(-1.f));
}

/* Features of channels [i, i + n) of query r, which is at x, and their part in z and w. */
FV_FN void map_query(factor *features, fv_v z[FV_STREAMS], fv_v *w, const float *scratch,
                     const layout *l, const queries *s, const angles *turn, const void *x, size_t r,
                     size_t i, int n, bool turned)
{
    fv_v f[FV_BLOCKS];
    map(f, &s->q, 1, x, r, i, n);
    FV_UNROLL
    for (int b = 0; b < FV_BLOCKS; b++) {
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            z[k] = fv_fma(f[b], fv_load(scratch + l->m + (b ^ k) * l->dp + i), z[k]);
        if (turned)
            f[b] = rotate(f[b], turn, s->turn.split, i, n);
        if (CENTRED && turned)
            *w = fv_fma(f[b], fv_load(scratch + l->w + b * l->dp + i), *w);
        put_row(features, b * l->dp + i, f[b]);
    }
}

/* Features of a block of queries with z and w; rows up to a whole tile are zero. */
FV_FN void map_queries(float *scratch, weights *t, const layout *l, const queries *s, size_t rows,
                       bool turned)
{
    const enum fv_type type = stored(s->q.type);
    factor *features = factors(scratch, l->features);
    const void *x = s->q.x, *next = s->q.next;
    float z_part[FV_STREAMS][FV_W * FV_W], w_part[FV_W * FV_W]; /* of the last FV_W rows */
    angles angle = turned ? angles_first(&s->turn) : (angles){0};
    for (size_t r = 0; r < rows; r++, features += l->width) {
        fv_v z[FV_STREAMS], w = fv_set(0.f);
        size_t i = 0;
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            z[k] = fv_set(0.f);
        for (; i + FV_W <= l->d; i += FV_W) {
            fv_fetch(fv_element(next, type, i));
            map_query(features, z, &w, scratch, l, s, &angle, x, r, i, FV_W, turned);
        }
        for (; i < l->dp; i += FV_W)
            map_query(features, z, &w, scratch, l, s, &angle, x, r, i,
                      i < l->d ? (int)(l->d - i) : 0, turned);
        if (turned)
            angles_next(&angle, &s->turn);
        x = fv_element(x, type, s->q.ld);
        next = fv_element(next, type, s->q.ld);
        const size_t turn = r % FV_W;
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            fv_store(z_part[k] + turn * FV_W, z[k]);
        if (CENTRED && turned)
            fv_store(w_part + turn * FV_W, w);
        if (turn + 1 < FV_W && r + 1 < rows)
            continue;
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            fv_store_n(t->z[k] + r - turn, fv_hsum_rows(z_part[k]), (int)turn + 1);
        if (CENTRED)
            fv_store_n(t->w + r - turn, fv_hsum_rows(turned ? w_part : z_part[0]), (int)turn + 1);
    }
    memset(features, 0, (fv_tile_round(rows, FV_TILE_M) - rows) * l->width * sizeof *features);
}

/* Turns z and w into the factors of the output, with normalisation and gates, FV_W rows at a time.
 */
static void output_factors(weights *t, const queries *s, size_t rows)
{
    const fv_v least = fv_set(FLT_MIN); /* 0 / least is 0 */
    for (size_t r = 0; r < rows; r += FV_W) {
        const int n = fv_lanes(rows - r);
        float gates[FV_W];
        fv_v gate = fv_set(1.f), eps = fv_max(least, fv_set(s->eps));
        for (int i = 0; s->gate && i < n; i++)
            gates[i] = s->gate[(r + (size_t)i) * s->ldg];
        if (s->gate)
            gate = fv_load_n(gates, n);
        if (SHIFT && s->eps > 0.f && !s->plain)
            eps = fv_max(least, fv_mul(eps, fv_exp(fv_neg(fv_load_n(t->stat[0] + r, n)))));
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++) {
            const fv_v z = fv_load_n(t->z[k] + r, n);
            fv_store_n(t->scale[k] + r, s->plain ? gate : fv_mul(gate, fv_norm(z, eps)), n);
        }
#if FV_WANTS & FV_WANT_CENTRED
        const fv_v z = fv_load_n(t->z[0] + r, n), w = fv_load_n(t->w + r, n);
        fv_store_n(t->mean + r, fv_mul(gate, s->plain ? w : fv_norm_mean(z, w, eps)), n);
#endif
    }
}

static void write_tile(const layout *l, const queries *s, const weights *t, const float *vmean,
                       fv_v acc[FV_TILE_M][FV_TILE_N], size_t i, size_t j, size_t rows)
{
    const enum fv_type type = stored(s->type_out);
    FV_UNROLL
    for (size_t r = 0; r < FV_TILE_M; r++) {
        if (i + r >= rows)
            break;
        void *y = fv_element(s->out, type, (i + r) * s->ldo);
        FV_UNROLL
        for (int v = 0; v < FV_TILE_N; v++) {
            const size_t packed = j + (size_t)v * FV_W;
            const size_t k = FV_STREAMS > 1 && packed >= l->streamp, col = packed - k * l->streamp;
            fv_v x = fv_mul(acc[r][v], fv_set(t->scale[k][i + r]));
            if (CENTRED)
                x = fv_fma(fv_set(t->mean[i + r]), fv_load(vmean + packed), x);
            if (col < l->stream)
                fv_row_store(y, type, k * l->stream + col, x, fv_lanes(l->stream - col));
        }
    }
}

static void apply_block(float *scratch, const layout *l, const queries *s, size_t rows)
{
    const factor *features = factors(scratch, l->features), *right = factors(scratch, l->right);
    const size_t depth = fv_tile_round(l->width - l->dp + l->d, PAIR);
    weights t;
    queries block = *s;
    if (!FV_STAT_WIDE) {
        block.q.stat = t.stat[0];
        block.q.statld = BLOCK;
        if (!(SHIFT && s->plain))
            row_statistics(t.stat[0], &block.q, 1, rows, 1, l->d, fv_set(0.f));
    }
    if (s->turn.cos)
        map_queries(scratch, &t, l, &block, rows, true);
    else
        map_queries(scratch, &t, l, &block, rows, false);
    output_factors(&t, s, rows);
    for (size_t i = 0; i < rows; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dvp; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            multiply_tile(acc, features + i * l->width, l->width, 1, right + PAIR * j, l->dvp,
                          depth);
            write_tile(l, s, &t, scratch + l->vmean, acc, i, j, rows);
        }
    }
}

/* A call's queries of one head. */
static void apply_head(const float *state, const fv_args *a, const fv_call *c, const layout *l,
                       const rotation *turn, size_t h)
{
    const uint32_t flags = a->prob.flags;
    const enum fv_type type = stored(a->type[FV_APPLY_Q]), type_out = stored(a->type[FV_APPLY_OUT]);
    const void *q = c->p[FV_APPLY_Q];
    const float *gate = c->p[FV_APPLY_GATE];
    const bool plain = flags & FV_FLAG_UNNORMALISED;
    float *scratch = c->scratch;
    const size_t rows = block_rows(c->rows);
    queries s = {.q = {.x = fv_element(q, type, h * l->d),
                       .ld = a->ld[FV_APPLY_Q],
                       .type = type,
                       .param = scratch + l->param + h * FV_PARAMS * l->dp,
                       .dp = l->dp,
                       .shift = SHIFT && !plain ? scratch + l->shift : NULL,
                       .stat = scratch + l->stat[1],
                       .statld = c->rows},
                 .gate = flags & FV_FLAG_GATED ? gate + h : NULL,
                 .ldg = a->ld[FV_APPLY_GATE],
                 .turn = *turn,
                 .out = fv_element(c->p[FV_APPLY_OUT], type_out, h * l->dv),
                 .type_out = type_out,
                 .ldo = a->ld[FV_APPLY_OUT],
                 .eps = a->f[1],
                 .plain = plain};
    pack_state(scratch, l, state, a->f[0]);
    for (size_t r = 0; r < c->rows; r += rows) {
        const size_t n = c->rows - r < rows ? c->rows - r : rows;
        s.q.next = after(c, q, type, s.q.ld, l->d, h, r, n);
        apply_block(scratch, l, &s, n);
        s.q.x = fv_element(s.q.x, type, n * s.q.ld);
        s.q.stat += FV_STAT_WIDE ? n : 0;
        s.gate += s.gate ? n * s.ldg : 0;
        s.out = fv_element(s.out, type_out, n * s.ldo);
        if (s.turn.cos)
            rotation_move(&s.turn, n);
    }
}

void KERNEL(fv_k_lattn_apply)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const fv_v alpha = fv_set(a->f[2]);
    const rotation turn =
        rotation_at(a, c, FV_APPLY_COS, FV_APPLY_SIN, l.d, (float *)c->scratch + l.turn);
    finish_params((float *)c->scratch + l.param, c->p[FV_APPLY_PARAM], l.heads, l.d, l.dp, alpha);
    statistics_of_all_heads(c->scratch, &l, 1, c->p[FV_APPLY_Q], a->type[FV_APPLY_Q],
                            a->ld[FV_APPLY_Q], c->rows, alpha);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
        apply_head((const float *)c->p[FV_APPLY_STATE] + h * l.state.floats, a, c, &l, &turn, h);
}

/* ---- windows ---- */

/* One head after the other, so that its state stays in L1. */
void KERNEL(fv_k_wlattn)(const fv_args *a, const fv_call *c)
{
    const size_t window = a->prob.dim[FV_ATTN_KEYS];
    const layout l = lay_out(&a->prob, window);
    const fv_wlattn_args args = fv_wlattn_split(a);
    const fv_v alpha = fv_set(a->f[2]);
    const rotation none = {0};
    float *scratch = c->scratch, *state = scratch + l.floats;
    finish_params(scratch + l.param, c->p[FV_WINDOW_PARAM], l.heads, l.d, l.dp, alpha);
    for (size_t row = 0; row < c->rows; row += window) {
        const fv_call to_state = fv_wlattn_reduce(a, c, row, state, scratch);
        const fv_call from_state = fv_wlattn_apply(a, c, row, state, scratch);
        statistics_of_all_heads(scratch, &l, 0, to_state.p[FV_REDUCE_K], a->type[FV_WINDOW_K],
                                a->ld[FV_WINDOW_K], window, alpha);
        statistics_of_all_heads(scratch, &l, 1, from_state.p[FV_APPLY_Q], a->type[FV_WINDOW_Q],
                                a->ld[FV_WINDOW_Q], window, alpha);
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            reduce_head(state, &args.reduce, &to_state, &l, &none, h);
            apply_head(state, &args.apply, &from_state, &l, &none, h);
        }
    }
}

/* ---- features alone ---- */

#if FV_PARAMS == 0 && !FV_STAT_WIDE && !FV_FACTORS_BF16
FV_FN void features_of(float *out, size_t ldo, const float *x, size_t ldx, size_t rows, size_t d,
                       int query)
{
    float stat[FV_STATS + AT_LEAST_1][BLOCK];
    source s = {.x = x, .ld = ldx, .stat = stat[0], .statld = BLOCK};
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK, s.x = x + r0 * ldx) {
        const size_t block = rows - r0 < BLOCK ? rows - r0 : BLOCK;
        if (!SHIFT)
            row_statistics(stat[0], &s, query, block, 1, d, fv_set(0.f));
        for (size_t r = 0; r < block; r++) {
            for (size_t i = 0; i < d; i += FV_W) {
                const int n = fv_lanes(d - i);
                fv_v f[FV_BLOCKS];
                map(f, &s, query, x + (r0 + r) * ldx, r, i, n);
                FV_UNROLL
                for (int b = 0; b < FV_BLOCKS; b++)
                    fv_store_n(out + (r0 + r) * ldo + b * d + i, f[b], n);
            }
        }
    }
}

void FV_MECH_NAME(fv_features, FV_ISA)(float *out, size_t ldo, const float *x, size_t ldx,
                                       size_t rows, size_t d, int query)
{
    if (query)
        features_of(out, ldo, x, ldx, rows, d, 1);
    else
        features_of(out, ldo, x, ldx, rows, d, 0);
}
#endif

/* ---- hooks ---- */

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows).floats * sizeof(float);
}

const fv_kernel_hooks KERNEL(fv_h_lattn) = {
    .applies = applies, .rate = PAIR * RATE, .scratch = scratch_bytes};

static bool applies_window(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_ROPE | FV_FLAG_GATED)) && applies(p);
}

static size_t scratch_window(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const layout l = lay_out(p, p->dim[FV_ATTN_KEYS]);
    (void)k, (void)rows;
    return (l.floats + l.state.floats) * sizeof(float);
}

const fv_kernel_hooks KERNEL(fv_h_wlattn) = {
    .applies = applies_window, .rate = PAIR * RATE, .scratch = scratch_window};
