/* lattn_apply.h: LATTN_APPLY: multiplies the queries of a call by the state of each head.
 * mech/mech.h must be included before it. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_APPLY_H
#define FOVEA_PLATFORM_TMPL_LATTN_APPLY_H

#include <float.h>
#include <string.h>

#include "ops/contracts/linear_attention.h"
#include "platform/cpu/tmpl/lattn_layout.h"
#include "platform/cpu/vec/fetch.h"

/* The queries of one head, and where their results are stored. */
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

/* For each row of a block: z of each stream, and w. The row's result is scale o + mean vmean; its
 * statistics follow from z and w too. */
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

/* Computes features of channels [i, i + n) of query r, whose row is at x, and adds their terms to z
 * and w. */
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

/* Computes the features of a block of queries, and z and w. Feature rows up to a whole tile are
 * zero. */
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

/* Computes the coefficients of the output from z and w, including normalisation and gates, FV_W
 * rows at a time. */
static void output_scales(weights *t, const queries *s, size_t rows)
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

/* Computes the results of a block of queries: features times the state. */
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
    output_scales(&t, s, rows);
    if (l->by)
        l->by->round_rows(scratch + l->features, fv_tile_round(rows, FV_TILE_M), l->width);
    apply_state(scratch, l, s, &t, rows);
}

/* Computes the results of one head for all queries of a call. */
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
        s.out = floats_at(scratch + l->v, &s.ldo, &out, r, h * l->dv, l->dv);
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

#endif
