/* lattn_reduce.h: LATTN_REDUCE: sums the keys and values of a call into a state of each head.
 * mech/mech.h must be included before it. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_REDUCE_H
#define FOVEA_PLATFORM_TMPL_LATTN_REDUCE_H

#include <float.h>
#include <string.h>

#include "ops/contracts/linear_attention.h"
#include "platform/cpu/tmpl/lattn_layout.h"
#include "platform/cpu/tmpl/lattn_merge.h"
#include "platform/cpu/vec/fetch.h"

#ifdef FV_SMALLEST
#define SMALLEST 1
#else
#define SMALLEST 0
#endif

/* Keys of one head, in blocks. */
typedef struct keys {
    source k;
    const float *v, *next_v;
    const float *gate; /* NULL: there are none */
    size_t ldv, ldg;
    rotation turn; /* cos NULL: none */
    float mean;    /* 1 / keys */
    bool shifted;
    bool add; /* SUMS: adds to the state instead of overwriting it */
} keys;

FV_FN void put(float *y, fv_v x, int n, bool add)
{
    fv_store_n(y, add ? fv_add(fv_load_n(y, n), x) : x, n);
}

/* Packs values minus their mean. `rest` becomes the mean of the packed values, which rounding keeps
 * from being exactly 0, and which corrects S. If operands are rounded to bfloat16, `rest` is the
 * mean after that rounding. */
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

/* Computes the features of `vectors` vectors of channels from i on, of which the last has n
 * channels, for a block of keys. Their means go to the state: m before the rotation, w after it.
 * With the first channels also packs the values, whose loads overlap with phi; centred values are
 * packed elsewhere. */
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

/* Updates the running maximum of every channel. */
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

/* Computes S of a block of at most BLOCK rows of one head. */
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

/* Computes the state of one block of keys. */
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
    if (!s->gate) { /* a gate of 1 changes nothing */
        block.gate = &one;
        block.ldg = 0;
    }
    /* In small builds, one loop less is worth a multiplication by 1. */
    if (s->turn.cos || s->gate || SMALLEST)
        map_keys(features, right, state, l, &block, rows, s->turn.cos != NULL, true);
    else
        map_keys(features, right, state, l, &block, rows, false, false);
    if (l->by)
        l->by->round_columns(features, NULL, rows, l->width);
    if (l->by && !CENTRED)
        l->by->round_columns(right, NULL, rows, l->dvp);
    multiply(state, features, right, scratch + l->vmean, l, s, rows);
}

/* Adds a call's rows of one head to the head's state. Parameters and statistics over all heads are
 * already in the scratch. */
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

#endif
