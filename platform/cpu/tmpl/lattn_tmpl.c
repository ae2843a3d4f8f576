/* lattn_tmpl.c: LATTN_REDUCE, LATTN_MERGE, LATTN_APPLY and WLATTN over the vector vocabulary, with
 * the features and the normalisation of one mechanism: src/mech/<FV_MECHANISM>.h.
 *
 * A block of rows is mapped to features, in cache; then products of them with the values, or with
 * the state, go through the register tile. Whether a mechanism has blocks, statistics or a shift is
 * known when this is compiled, so what it does not have costs nothing.
 *
 * Where products are of bfloat16 all but them is the same: rows of bfloat16 become floats block by
 * block, and lattn_bf16.h has the rest. */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/feature_maps.h"
#include "platform/cpu/lattn_bf16.h"
#include "platform/cpu/vec/fetch.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"
#include "platform/cpu/vec/tile.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "mech/mech.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_wlattn.h"
#include "platform/cpu/tmpl/lattn_rows.h"
#include "platform/cpu/tmpl/rotation.h"

#define KERNEL(op) FV_MECH_NAME(op, FV_ISA)

#ifdef FV_SMALLEST
#define SMALLEST 1
#else
#define SMALLEST 0
#endif

enum {
    BLOCK = 192,               /* rows whose features and values stay in L1 and L2 */
    SUMS = !CENTRED && !SHIFT, /* states are sums, and a block is added to one as it is */
    /* Vectors of a key that are mapped together: a row is on a page of its own, and is visited
     * once, as long as the sums of its features stay in registers. */
    VECTORS = FV_REGS >= 32 ? 4 : 2,
};

/* Widths: dp is d rounded up, `width` that of a row of features; the values of stream s lie packed
 * from column s * streamp on. Then the parts of a call's scratch; stat[1] is of queries. Rows that
 * are not stored as floats are so in `k`, or those of q, and in `v`, or those of the results. */
typedef struct layout {
    const fv_lattn_bf16 *by; /* NULL: products of floats */
    size_t heads, d, dv, dp, width, stream, streamp, dvp;
    fv_lattn_state state;
    size_t param, stat[2], turn, features, right, part, m, w, vmean, shift, k, v, floats;
} layout;

static layout lay_out(const fv_problem *p, size_t rows, const fv_lattn_bf16 *by)
{
    layout l = {.by = by, .heads = p->heads, .d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    const size_t staged = p->acc != FV_BF16 ? 0 : FV_STAT_WIDE && l.heads > BLOCK ? l.heads : BLOCK;
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
    l.right = l.features + BLOCK * l.width;
    l.part = l.right + (l.width > BLOCK ? l.width : BLOCK) * l.dvp;
    l.m = l.part + l.state.floats;
    l.w = l.m + l.width;
    l.vmean = l.w + l.width;
    l.shift = l.vmean + l.dvp;
    l.k = l.shift + l.dp;
    l.v = l.k + staged * l.d;
    l.floats = l.v + staged * l.dv;
    return l;
}

/* ---- what REDUCE and APPLY share ---- */

/* The rows to prefetch while rows [r, r + n) are computed: the head's next rows, else the next
 * head's, else those of the next call. */
FV_FN const float *after(const fv_call *c, const float *x, size_t ld, size_t d, size_t head,
                         size_t r, size_t n)
{
    if (r + n < c->rows)
        return x + (r + n) * ld + head * d;
    if (head + 1 < (size_t)c->col0 + c->cols)
        return x + (head + 1) * d;
    return x + c->rows * ld + c->col0 * d;
}

/* A call's rows in blocks of nearly equal size. */
static size_t block_rows(size_t rows)
{
    const size_t blocks = (rows + BLOCK - 1) / BLOCK;
    return (rows + blocks - 1) / blocks;
}

/* An operand's rows as they are stored: F32 or BF16. */
typedef struct stored {
    void *x;
    size_t ld;
    enum fv_type type;
} stored;

FV_FN stored stored_as(const fv_args *a, const fv_call *c, int operand)
{
    return (stored){c->p[operand], a->ld[operand], (enum fv_type)a->type[operand]};
}

/* Where rows from row r and column `col` on, `width` wide, are as floats, `*ld` apart: where they
 * are stored, or in `room`. */
static float *room_of(float *room, size_t *ld, const stored *s, size_t r, size_t col, size_t width)
{
    *ld = s->type == FV_F32 ? s->ld : width;
    return s->type == FV_F32 ? (float *)s->x + r * s->ld + col : room;
}

/* n of them. */
static const float *get_floats(float *room, size_t *ld, const stored *s, size_t r, size_t n,
                               size_t col, size_t width)
{
    float *x = room_of(room, ld, s, r, col, width);
    for (size_t i = 0; s->type != FV_F32 && i < n; i++)
        fv_row_convert(x + i * width, FV_F32, fv_element(s->x, FV_BF16, (r + i) * s->ld + col),
                       FV_BF16, width);
    return x;
}

/* Stores n that have been worked out there. */
static void put_floats(const stored *s, size_t r, size_t n, size_t col, size_t width,
                       const float *x)
{
    for (size_t i = 0; s->type != FV_F32 && i < n; i++)
        fv_row_convert(fv_element(s->x, FV_BF16, (r + i) * s->ld + col), FV_BF16, x + i * width,
                       FV_F32, width);
}

/* Statistics over all heads are the same for each: they are taken before the first. */
FV_FN void statistics_of_all_heads(float *scratch, const layout *l, int query, const stored *x,
                                   size_t rows, float alpha)
{
    float *stat = scratch + l->stat[query];
    const size_t block = x->type == FV_F32 ? rows : l->heads < BLOCK ? BLOCK / l->heads : 1;
    source s = {
        .param = scratch + l->param, .dp = l->dp, .stat = stat, .statld = rows, .alpha = alpha};
    for (size_t r = 0; FV_STAT_WIDE && r < rows; r += block, s.stat += block) {
        const size_t n = rows - r < block ? rows - r : block;
        s.x = get_floats(scratch + l->k, &s.ld, x, r, n, 0, l->heads * l->d);
        row_statistics(stat + r, &s, query, n, l->heads, l->d);
    }
}

/* y = factor x, n values, zeros up to np. */
static void scale_to(float *y, const float *x, size_t n, size_t np, fv_v factor)
{
    for (size_t i = 0; i < np; i += FV_W)
        fv_store(y + i, fv_mul(factor, fv_load_n(x + i, i < n ? fv_lanes(n - i) : 0)));
}

typedef void tile_multiply(float *tile, const float *a, size_t lda, size_t i, const float *b,
                           size_t ldb, size_t j, size_t depth);

FV_FN void tile_of(fv_v acc[FV_TILE_M][FV_TILE_N], tile_multiply *multiply, const float *a,
                   size_t lda, size_t i, const float *b, size_t ldb, size_t j, size_t depth)
{
    float tile[FV_TILE_M * FV_TILE_COLS];
    multiply(tile, a, lda, i, b, ldb, j, depth);
    FV_UNROLL
    for (int r = 0; r < FV_TILE_M; r++) {
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++)
            acc[r][c] = fv_load(tile + r * FV_TILE_COLS + c * FV_W);
    }
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

void KERNEL(fv_k_lattn_merge_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, 0, NULL);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *partial = (const float *)c->p[FV_MERGE_PARTIAL] + h * l.state.floats;
        float *state = (float *)c->p[FV_MERGE_STATE] + h * l.state.floats;
        memcpy(state, partial, l.state.floats * sizeof *state);
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            merge_state(state, partial + g * l.heads * l.state.floats, &l);
    }
}

/* ---- REDUCE ---- */

/* Keys of one head, in blocks. */
typedef struct keys {
    source k;
    const float *v, *next_v;
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
 * S is corrected: of what is multiplied, so of what is rounded once more, if it is. */
static void centre_values(float *right, float *rest, float *state, const layout *l, const float *v,
                          size_t ldv, size_t rows)
{
    const fv_v share = fv_set(1.f / (float)rows);
    for (size_t j = 0; j < l->dvp; j += FV_TILE_COLS) {
        fv_v sum[FV_TILE_N], left[FV_TILE_N];
        int n[FV_TILE_N];
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++) {
            const size_t col = j + (size_t)c * FV_W;
            n[c] = col < l->dv ? fv_lanes(l->dv - col) : 0;
            sum[c] = left[c] = fv_set(0.f);
        }
        for (size_t r = 0; r < rows; r++) {
            FV_UNROLL
            for (int c = 0; c < FV_TILE_N; c++)
                sum[c] = fv_add(sum[c], fv_load_n(v + r * ldv + j + c * FV_W, n[c]));
        }
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++)
            sum[c] = fv_mul(sum[c], share);
        for (size_t r = 0; r < rows; r++) {
            FV_UNROLL
            for (int c = 0; c < FV_TILE_N; c++) {
                const fv_v x = fv_sub(fv_load_n(v + r * ldv + j + c * FV_W, n[c]), sum[c]);
                fv_store(right + r * l->dvp + j + c * FV_W, x);
                left[c] = fv_add(left[c], x);
            }
        }
        FV_UNROLL
        for (int c = 0; c < FV_TILE_N; c++) {
            left[c] = fv_mul(left[c], share);
            fv_store(rest + j + c * FV_W, left[c]);
            fv_store_n(state + l->state.vmean + j + c * FV_W, fv_add(sum[c], left[c]), n[c]);
        }
    }
    state[l->state.count] = (float)rows;
    if (!l->by)
        return;
    l->by->round_columns(right, rest, rows, l->dvp);
    scale_to(rest, rest, l->dvp, l->dvp, share);
}

/* Features of `vectors` vectors of channels from i on, the last of n channels, of a block of keys;
 * and their means in the state: m before the rotation, w after it. With the first channels values
 * are packed, unless their mean is needed first: their loads overlap with phi. */
FV_FN void map_channels(float *features, float *right, float *state, const layout *l, const keys *s,
                        size_t rows, size_t i, int vectors, int n, bool turned, bool gated)
{
    const float *x = s->k.x, *next = s->k.next, *gate = s->gate;
    const fv_v mean = fv_set(s->mean);
    fv_v m[VECTORS][FV_BLOCKS], w[VECTORS][FV_BLOCKS];
    angles turn = turned ? angles_first(&s->turn) : (angles){0};
    FV_UNROLL
    for (int c = 0; c < vectors; c++) {
        FV_UNROLL
        for (int b = 0; b < FV_BLOCKS; b++)
            m[c][b] = w[c][b] = fv_set(0.f);
    }
    for (size_t r = 0; r < rows; r++, x += s->k.ld, next += s->k.ld, features += l->width) {
        if (!CENTRED && i == 0)
            fv_tile_pack(right + r * l->dvp, l->dvp, s->v + r * s->ldv, 0, 1, l->dv);
        FV_UNROLL
        for (int c = 0; c < vectors; c++) {
            const size_t at = i + (size_t)c * FV_W;
            fv_v f[FV_BLOCKS];
            fv_fetch(next + at);
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
                fv_store(features + b * l->dp + at, f[b]);
            }
        }
        if (turned)
            angles_next(&turn, &s->turn);
    }
    FV_UNROLL
    for (int c = 0; c < vectors; c++) {
        const size_t at = i + (size_t)c * FV_W;
        const int lanes_at = c + 1 < vectors ? FV_W : n;
        FV_UNROLL
        for (int b = 0; b < FV_BLOCKS; b++) {
            put(state + l->state.m + b * l->d + at, fv_mul(m[c][b], mean), lanes_at, s->add);
            if (CENTRED)
                fv_store_n(state + l->state.w + b * l->d + at,
                           fv_mul(turned ? w[c][b] : m[c][b], mean), lanes_at);
        }
    }
}

FV_FN void map_keys(float *features, float *right, float *state, const layout *l, const keys *s,
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
    for (size_t i = 0; i < l->dp; i += FV_W) {
        const int n = i < l->d ? fv_lanes(l->d - i) : 0;
        fv_v top = fv_set(shifted ? -FLT_MAX : 0.f);
        for (size_t r = 0; shifted && r < rows; r++)
            top = fv_max(top, fv_load_n(k->x + r * k->ld + i, n));
        fv_store(shift + i, top);
        fv_store_n(state + l->state.shift + i, top, n);
    }
}

/* S of a block of at most BLOCK rows of one head. */
static void multiply(float *state, const float *features, const float *right, const float *rest,
                     const layout *l, const keys *s, size_t rows)
{
    const size_t tiles = (l->dv + FV_TILE_COLS - 1) / FV_TILE_COLS * (l->width / FV_TILE_M);
    const size_t depth = fv_tile_round(rows, 2);
    const fv_v factor = fv_set(s->mean);
    size_t tile = 0;
    for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
        for (size_t i = 0; i < l->width; i += FV_TILE_M) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            if (l->by)
                tile_of(acc, l->by->multiply_columns, features, l->width, i, right, l->dvp, j,
                        depth);
            else
                fv_tile(acc, features + i, 1, l->width, right + j, l->dvp, rows);
            fv_fetch_rows(s->next_v, s->ldv, rows * tile / tiles, rows * (tile + 1) / tiles, l->dv);
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
                    fv_v x = fv_mul(factor, acc[r][c]);
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
    float *features = scratch + l->features, *right = scratch + l->right;
    static const float one = 1.f;
    float stat[(FV_STATS_KEY + AT_LEAST_1) * BLOCK];
    keys block = *s;
    if (CENTRED)
        centre_values(right, scratch + l->vmean, state, l, s->v, s->ldv, rows);
    if (SHIFT) {
        update_shift(scratch + l->shift, state, l, &s->k, rows, s->shifted);
        block.k.shift = scratch + l->shift;
    }
    if (!FV_STAT_WIDE) {
        block.k.stat = stat;
        block.k.statld = BLOCK;
        row_statistics(stat, &block.k, 0, rows, 1, l->d);
    }
    if (!s->gate) { /* a product by 1 changes nothing */
        block.gate = &one;
        block.ldg = 0;
    }
    if (s->turn.cos || s->gate || SMALLEST) /* there one loop less is worth a product */
        map_keys(features, right, state, l, &block, rows, s->turn.cos != NULL, true);
    else
        map_keys(features, right, state, l, &block, rows, false, false);
    if (l->by)
        l->by->round_columns(features, NULL, rows, l->width);
    if (l->by && !CENTRED)
        l->by->round_columns(right, NULL, rows, l->dvp);
    multiply(state, features, right, scratch + l->vmean, l, s, rows);
}

/* A call's rows of one head into its state. Parameters and wide statistics are in the scratch. */
static void reduce_head(float *state, const fv_args *a, const fv_call *c, const layout *l,
                        const rotation *turn, size_t h)
{
    const uint32_t flags = a->prob.flags;
    const stored k = stored_as(a, c, FV_REDUCE_K), v = stored_as(a, c, FV_REDUCE_V);
    const float *gate = c->p[FV_REDUCE_GATE];
    float *scratch = c->scratch;
    const size_t rows = block_rows(c->rows);
    keys s = {.k = {.param = scratch + l->param + h * FV_PARAMS * l->dp,
                    .dp = l->dp,
                    .stat = scratch + l->stat[0],
                    .statld = c->rows,
                    .alpha = a->f[1]},
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
        s.k.x = get_floats(scratch + l->k, &s.k.ld, &k, r, n, h * l->d, l->d);
        s.v = get_floats(scratch + l->v, &s.ldv, &v, r, n, h * l->dv, l->dv);
        s.k.next = k.type == FV_F32 ? after(c, k.x, k.ld, l->d, h, r, n) : s.k.x;
        s.next_v = v.type == FV_F32 ? after(c, v.x, v.ld, l->dv, h, r, n) : s.v;
        reduce_block(to, scratch, l, &s, n);
        if (!fresh && !SUMS)
            merge_state(state, to, l);
        s.k.stat += FV_STAT_WIDE ? n : 0;
        s.gate += s.gate ? n * s.ldg : 0;
        if (s.turn.cos)
            rotation_move(&s.turn, n);
    }
}

static void reduce(const fv_args *a, const fv_call *c, const fv_lattn_bf16 *by)
{
    const layout l = lay_out(&a->prob, c->rows, by);
    const stored k = stored_as(a, c, FV_REDUCE_K);
    const fv_v alpha = fv_set(a->f[1]);
    const rotation turn =
        rotation_at(a, c, FV_REDUCE_COS, FV_REDUCE_SIN, l.d, (float *)c->scratch + l.turn);
    finish_params((float *)c->scratch + l.param, c->p[FV_REDUCE_PARAM], l.heads, l.d, l.dp, alpha);
    statistics_of_all_heads(c->scratch, &l, 0, &k, c->rows, a->f[1]);
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
    float *out;
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

/* Packs the state of a head, times `scale`, for the products. */
static void pack_state(float *scratch, const layout *l, const float *state, float scale)
{
    const fv_v factor = fv_set(scale);
    for (size_t b = 0; b < FV_BLOCKS; b++) {
        for (size_t i = 0; i < l->dp; i++) {
            float *row = scratch + l->right + (b * l->dp + i) * l->dvp;
            if (i >= l->d) {
                memset(row, 0, l->dvp * sizeof *row);
                continue;
            }
            for (size_t s = 0; s < FV_STREAMS; s++)
                scale_to(row + s * l->streamp,
                         state + l->state.s + ((b ^ s) * l->d + i) * l->dv + s * l->stream,
                         l->stream, s + 1 < FV_STREAMS ? l->streamp : l->dvp - s * l->streamp,
                         factor);
        }
        scale_to(scratch + l->m + b * l->dp, state + l->state.m + b * l->d, l->d, l->dp, factor);
        if (CENTRED)
            scale_to(scratch + l->w + b * l->dp, state + l->state.w + b * l->d, l->d, l->dp,
                     factor);
    }
    if (CENTRED)
        scale_to(scratch + l->vmean, state + l->state.vmean, l->dv, l->dvp, fv_set(1.f));
    if (SHIFT)
        scale_to(scratch + l->shift, state + l->state.shift, l->d, l->dp, fv_set(-1.f));
    if (l->by)
        l->by->round_columns(scratch + l->right, NULL, l->width, l->dvp);
}

/* Features of channels [i, i + n) of query r, which is at x, and their part in z and w. */
FV_FN void map_query(float *features, fv_v z[FV_STREAMS], fv_v *w, const float *scratch,
                     const layout *l, const queries *s, const angles *turn, const float *x,
                     size_t r, size_t i, int n, bool turned)
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
        fv_store(features + b * l->dp + i, f[b]);
    }
}

/* Features of a block of queries with z and w; rows up to a whole tile are zero. */
FV_FN void map_queries(float *scratch, weights *t, const layout *l, const queries *s, size_t rows,
                       bool turned)
{
    float *features = scratch + l->features;
    const float *x = s->q.x, *next = s->q.next;
    float z_part[FV_STREAMS][FV_W * FV_W], w_part[FV_W * FV_W]; /* of the last FV_W rows */
    angles angle = turned ? angles_first(&s->turn) : (angles){0};
    for (size_t r = 0; r < rows; r++, x += s->q.ld, next += s->q.ld, features += l->width) {
        fv_v z[FV_STREAMS], w = fv_set(0.f);
        size_t i = 0;
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            z[k] = fv_set(0.f);
        for (; i + FV_W <= l->d; i += FV_W) {
            fv_fetch(next + i);
            map_query(features, z, &w, scratch, l, s, &angle, x, r, i, FV_W, turned);
        }
        for (; i < l->dp; i += FV_W)
            map_query(features, z, &w, scratch, l, s, &angle, x, r, i,
                      i < l->d ? (int)(l->d - i) : 0, turned);
        if (turned)
            angles_next(&angle, &s->turn);
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
    FV_UNROLL
    for (size_t r = 0; r < FV_TILE_M; r++) {
        if (i + r >= rows)
            break;
        float *y = s->out + (i + r) * s->ldo;
        FV_UNROLL
        for (int v = 0; v < FV_TILE_N; v++) {
            const size_t packed = j + (size_t)v * FV_W;
            const size_t k = FV_STREAMS > 1 && packed >= l->streamp, col = packed - k * l->streamp;
            fv_v x = fv_mul(acc[r][v], fv_set(t->scale[k][i + r]));
            if (CENTRED)
                x = fv_fma(fv_set(t->mean[i + r]), fv_load(vmean + packed), x);
            if (col < l->stream)
                fv_store_n(y + k * l->stream + col, x, fv_lanes(l->stream - col));
        }
    }
}

/* The results of a block of queries: features times the state. */
static void apply_state(float *scratch, const layout *l, const queries *s, const weights *t,
                        size_t rows)
{
    const float *features = scratch + l->features, *right = scratch + l->right;
    const size_t depth = l->width - l->dp + l->d;
    for (size_t i = 0; i < rows; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dvp; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            if (l->by)
                tile_of(acc, l->by->multiply_rows, features, l->width, i, right, l->dvp, j,
                        fv_tile_round(depth, 2));
            else
                fv_tile(acc, features + i * l->width, l->width, 1, right + j, l->dvp, depth);
            write_tile(l, s, t, scratch + l->vmean, acc, i, j, rows);
        }
    }
}

static void apply_block(float *scratch, const layout *l, const queries *s, size_t rows)
{
    weights t;
    queries block = *s;
    if (!FV_STAT_WIDE) {
        block.q.stat = t.stat[0];
        block.q.statld = BLOCK;
        if (!(SHIFT && s->plain))
            row_statistics(t.stat[0], &block.q, 1, rows, 1, l->d);
    }
    if (s->turn.cos)
        map_queries(scratch, &t, l, &block, rows, true);
    else
        map_queries(scratch, &t, l, &block, rows, false);
    output_factors(&t, s, rows);
    if (l->by)
        l->by->round_rows(scratch + l->features, fv_tile_round(rows, FV_TILE_M), l->width);
    apply_state(scratch, l, s, &t, rows);
}

/* A call's queries of one head. */
static void apply_head(const float *state, const fv_args *a, const fv_call *c, const layout *l,
                       const rotation *turn, size_t h)
{
    const uint32_t flags = a->prob.flags;
    const stored q = stored_as(a, c, FV_APPLY_Q), out = stored_as(a, c, FV_APPLY_OUT);
    const float *gate = c->p[FV_APPLY_GATE];
    const bool plain = flags & FV_FLAG_UNNORMALISED;
    float *scratch = c->scratch;
    const size_t rows = block_rows(c->rows);
    queries s = {.q = {.param = scratch + l->param + h * FV_PARAMS * l->dp,
                       .dp = l->dp,
                       .shift = SHIFT && !plain ? scratch + l->shift : NULL,
                       .stat = scratch + l->stat[1],
                       .statld = c->rows,
                       .alpha = a->f[2]},
                 .gate = flags & FV_FLAG_GATED ? gate + h : NULL,
                 .ldg = a->ld[FV_APPLY_GATE],
                 .turn = *turn,
                 .eps = a->f[1],
                 .plain = plain};
    pack_state(scratch, l, state, a->f[0]);
    for (size_t r = 0; r < c->rows; r += rows) {
        const size_t n = c->rows - r < rows ? c->rows - r : rows;
        s.q.x = get_floats(scratch + l->k, &s.q.ld, &q, r, n, h * l->d, l->d);
        s.q.next = q.type == FV_F32 ? after(c, q.x, q.ld, l->d, h, r, n) : s.q.x;
        s.out = room_of(scratch + l->v, &s.ldo, &out, r, h * l->dv, l->dv);
        apply_block(scratch, l, &s, n);
        put_floats(&out, r, n, h * l->dv, l->dv, s.out);
        s.q.stat += FV_STAT_WIDE ? n : 0;
        s.gate += s.gate ? n * s.ldg : 0;
        if (s.turn.cos)
            rotation_move(&s.turn, n);
    }
}

static void apply(const fv_args *a, const fv_call *c, const fv_lattn_bf16 *by)
{
    const layout l = lay_out(&a->prob, c->rows, by);
    const stored q = stored_as(a, c, FV_APPLY_Q);
    const fv_v alpha = fv_set(a->f[2]);
    const rotation turn =
        rotation_at(a, c, FV_APPLY_COS, FV_APPLY_SIN, l.d, (float *)c->scratch + l.turn);
    finish_params((float *)c->scratch + l.param, c->p[FV_APPLY_PARAM], l.heads, l.d, l.dp, alpha);
    statistics_of_all_heads(c->scratch, &l, 1, &q, c->rows, a->f[2]);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
        apply_head((const float *)c->p[FV_APPLY_STATE] + h * l.state.floats, a, c, &l, &turn, h);
}

/* ---- windows ---- */

/* One head after the other, so that its state stays in L1. */
static void attend_windows(const fv_args *a, const fv_call *c, const fv_lattn_bf16 *by)
{
    const size_t window = a->prob.dim[FV_ATTN_KEYS];
    const layout l = lay_out(&a->prob, window, by);
    const fv_wlattn_args args = fv_wlattn_split(a);
    const fv_v alpha = fv_set(a->f[2]);
    const rotation none = {0};
    float *scratch = c->scratch, *state = scratch + l.floats;
    finish_params(scratch + l.param, c->p[FV_WINDOW_PARAM], l.heads, l.d, l.dp, alpha);
    for (size_t row = 0; row < c->rows; row += window) {
        const fv_call to_state = fv_wlattn_reduce(a, c, row, state, scratch);
        const fv_call from_state = fv_wlattn_apply(a, c, row, state, scratch);
        const stored k = stored_as(&args.reduce, &to_state, FV_REDUCE_K);
        const stored q = stored_as(&args.apply, &from_state, FV_APPLY_Q);
        statistics_of_all_heads(scratch, &l, 0, &k, window, a->f[2]);
        statistics_of_all_heads(scratch, &l, 1, &q, window, a->f[2]);
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            reduce_head(state, &args.reduce, &to_state, &l, &none, h);
            apply_head(state, &args.apply, &from_state, &l, &none, h);
        }
    }
}

/* ---- features alone ---- */

#if FV_PARAMS == 0 && !FV_STAT_WIDE
FV_FN void features_of(float *out, size_t ldo, const float *x, size_t ldx, size_t rows, size_t d,
                       int query)
{
    float stat[FV_STATS + AT_LEAST_1][BLOCK];
    source s = {.x = x, .ld = ldx, .stat = stat[0], .statld = BLOCK};
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK, s.x += BLOCK * ldx) {
        const size_t block = rows - r0 < BLOCK ? rows - r0 : BLOCK;
        if (!SHIFT)
            row_statistics(stat[0], &s, query, block, 1, d);
        for (size_t r = 0; r < block; r++) {
            for (size_t i = 0; i < d; i += FV_W) {
                const int n = fv_lanes(d - i);
                fv_v f[FV_BLOCKS];
                map(f, &s, query, s.x + r * ldx, r, i, n);
                FV_UNROLL
                for (int b = 0; b < FV_BLOCKS; b++)
                    fv_store_n(out + (r0 + r) * ldo + b * d + i, f[b], n);
            }
        }
    }
}

void KERNEL(fv_features)(float *out, size_t ldo, const float *x, size_t ldx, size_t rows, size_t d,
                         int query)
{
    if (query)
        features_of(out, ldo, x, ldx, rows, d, 1);
    else
        features_of(out, ldo, x, ldx, rows, d, 0);
}
#endif

/* ---- kernels and their hooks ---- */

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows, NULL).floats * sizeof(float);
}

static size_t scratch_window(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const layout l = lay_out(p, p->dim[FV_ATTN_KEYS], NULL);
    (void)k, (void)rows;
    return (l.floats + l.state.floats) * sizeof(float);
}

static bool has_windows(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_ROPE | FV_FLAG_GATED));
}

static bool applies_bf16(const fv_problem *p)
{
    return p->acc == FV_BF16 && fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

static bool applies_window(const fv_problem *p)
{
    return has_windows(p) && applies(p);
}

static bool applies_window_bf16(const fv_problem *p)
{
    return has_windows(p) && applies_bf16(p);
}

#define HOOKS(name, applies_to, scratch_of, speed)                                                 \
    const fv_kernel_hooks name = {                                                                 \
        .applies = applies_to, .rate = (speed)*RATE, .scratch = scratch_of};

#define KERNELS(type, level, applies_to, applies_to_window, by, speed)                             \
    void FV_MECH_NAME(fv_k_lattn_reduce_##type, level)(const fv_args *a, const fv_call *c)         \
    {                                                                                              \
        reduce(a, c, by);                                                                          \
    }                                                                                              \
    void FV_MECH_NAME(fv_k_lattn_apply_##type, level)(const fv_args *a, const fv_call *c)          \
    {                                                                                              \
        apply(a, c, by);                                                                           \
    }                                                                                              \
    void FV_MECH_NAME(fv_k_wlattn_##type, level)(const fv_args *a, const fv_call *c)               \
    {                                                                                              \
        attend_windows(a, c, by);                                                                  \
    }                                                                                              \
    HOOKS(FV_MECH_NAME(fv_h_lattn_##type, level), applies_to, scratch_bytes, speed)                \
    HOOKS(FV_MECH_NAME(fv_h_wlattn_##type, level), applies_to_window, scratch_window, speed)

/* `speed`: of a product, in those of float32. */
#define KERNELS_BF16(level, speed)                                                                 \
    KERNELS(bf16, level, applies_bf16, applies_window_bf16, &fv_lattn_bf16_##level, speed)

KERNELS(f32, FV_ISA, applies, applies_window, NULL, 1)
#if defined FV_ISA_C
KERNELS_BF16(c, 1)
#elif defined FV_ISA_AVX2
KERNELS_BF16(avx2, 1)
#elif defined FV_ISA_AVX512
KERNELS_BF16(avx512, 1)
#elif defined FV_ISA_NEON
KERNELS_BF16(neon, 1)
#endif
#if defined FV_ISA_AVX512 && defined FV_LEVEL_AVX512_BF16
KERNELS_BF16(avx512_bf16, 2)
#elif defined FV_ISA_NEON && defined FV_LEVEL_NEON_DOT
KERNELS_BF16(neon_dot, 2)
#endif
