/* lattn_grad_tmpl.c: LATTN_APPLY_GRAD, LATTN_STATE_GRAD, LATTN_REDUCE_GRAD, LATTN_GATE_GRAD and
 * LATTN_PARAM_GRAD in vec.h's vector functions, with the derivatives of one mechanism.
 *
 * As in lattn_tmpl.c, features are computed for a block of rows that stays in cache, and products
 * use the register tile. The products are: scaled rows of dout times the transposed state, features
 * times dout, and values times the state's gradient. A last pass applies the derivatives of the
 * features. */
#define FV_DERIVE
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/tile.h"
#include "train/cpu/train_cpu_kernels.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "mech/mech.h"
#include "ops/mech_traits.h"
#include "platform/cpu/tmpl/lattn_rows.h"
#include "platform/cpu/tmpl/rotation.h"
#include "train/ref/training.h"

#define KERNEL(op) FV_MECH_NAME(op, FV_ISA)

enum { BLOCK = 128 }; /* rows whose features, values and gradients stay in L2 */

/* dp is d, and streamp the number of value channels of a stream, both rounded up to whole register
 * tiles. The values of stream s are packed from column s * streamp on. The other fields are offsets
 * of the parts of a call's scratch. */
typedef struct layout {
    size_t heads, d, dv, dp, width, stream, streamp, dvp;
    size_t df_heads; /* number of heads whose feature gradients are kept at the same time */
    fv_lattn_state state;
    size_t param, stat, turn, features, turned, values, df, matrix, transposed, m, w, row, shift;
    size_t floats;
} layout;

static layout lay_out(const fv_problem *p, size_t rows)
{
    layout l = {.heads = p->heads, .d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    const bool rope = p->flags & FV_FLAG_ROPE;
    l.dp = fv_tile_round(l.d, FV_TILE_COLS);
    l.width = FV_BLOCKS * l.dp;
    l.stream = l.dv / FV_STREAMS;
    l.streamp = fv_tile_round(l.stream, FV_W);
    l.dvp = fv_tile_round(FV_STREAMS * l.streamp, FV_TILE_COLS);
    l.df_heads = FV_STAT_WIDE ? l.heads : 1;
    l.state = fv_lattn_layout(FV_BLOCKS, FV_WANTS, (uint32_t)l.d, (uint32_t)l.dv);
    l.stat = l.param + l.heads * FV_PARAMS * l.dp;
    l.turn = l.stat + 3 * BLOCK;
    l.features = l.turn + (rope ? rotation_joined(rows, l.d) : 0);
    l.turned = l.features + BLOCK * l.width;
    l.values = l.turned + (rope ? BLOCK * l.width : 0);
    l.df = l.values + BLOCK * l.dvp;
    l.matrix = l.df + l.df_heads * BLOCK * l.width;
    l.transposed = l.matrix + l.width * l.dvp;
    l.m = l.transposed + l.width * l.dvp;
    l.w = l.m + l.width;
    l.row = l.w + l.width;
    l.shift = l.row + l.dvp;
    l.floats = l.shift + l.dp;
    return l;
}

/* The rows of one head in a block of a call. */
typedef struct piece {
    source x;
    rotation turn;     /* cos is NULL without a rotation */
    const float *gate; /* NULL without gates */
    size_t ldg, count;
} piece;

static rotation rotation_after(rotation t, size_t rows)
{
    if (t.cos)
        rotation_move(&t, rows);
    return t;
}

/* Computes the statistics of a block. s.x points to the head's rows or, for statistics over all
 * heads, to the first head's rows. */
static void block_statistics(float *stat, const layout *l, source s, int query, size_t rows)
{
    s.stat = stat;
    s.statld = BLOCK;
    if (!(SHIFT && !s.shift))
        row_statistics(stat, &s, query, rows, FV_STAT_WIDE ? l->heads : 1, l->d);
}

/* Computes the features of a block without gates. If there is a rotation, stores the rotated
 * features in `turned`. */
static void map_rows(float *scratch, const layout *l, const piece *s, int query)
{
    float *f = scratch + l->features, *turned = scratch + l->turned;
    angles angle = s->turn.cos ? angles_first(&s->turn) : (angles){0};
    for (size_t r = 0; r < s->count; r++, f += l->width, turned += l->width) {
        for (size_t i = 0; i < l->dp; i += FV_W) {
            const int n = i < l->d ? fv_lanes(l->d - i) : 0;
            fv_v y[FV_BLOCKS];
            map(y, &s->x, query, s->x.x + r * s->x.ld, r, i, n);
            FV_UNROLL
            for (int b = 0; b < FV_BLOCKS; b++) {
                fv_store(f + b * l->dp + i, y[b]);
                if (s->turn.cos)
                    fv_store(turned + b * l->dp + i, rotate(y[b], &angle, s->turn.split, i, n));
            }
        }
        if (s->turn.cos)
            angles_next(&angle, &s->turn);
    }
    /* Products read rows in whole register tiles, so the rows that pad the last tile are set to
     * zero. */
    const size_t rest = fv_tile_round(s->count, FV_TILE_M) - s->count;
    memset(f, 0, rest * l->width * sizeof *f);
    if (s->turn.cos)
        memset(turned, 0, rest * l->width * sizeof *turned);
}

/* Computes df[r] = values[r] times the transposed matrix, for a block of rows in whole register
 * tiles. */
static void multiply_rows(float *df, const float *values, const float *transposed, const layout *l,
                          size_t rows)
{
    const size_t depth = FV_STREAMS * l->streamp;
    for (size_t i = 0; i < rows; i += FV_TILE_M) {
        for (size_t j = 0; j < l->width; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, values + i * l->dvp, l->dvp, 1, transposed + j, l->width, depth);
            fv_tile_store(df + i * l->width + j, l->width, acc);
        }
    }
}

/* For each row of a block: the factors of dout and of vmean, and the gradients of z and w. */
typedef struct weights {
    float scale[FV_STREAMS][BLOCK], dz[FV_STREAMS][BLOCK], dw[BLOCK], mean[BLOCK];
} weights;

/* Replaces df by R^T (df + dw w) + the sum over the streams of dz m, where R is the rotation. For
 * keys, which have no weights, dw is 1 and dz is 1 in the first stream. */
FV_FN void turn_back(float *df, const float *scratch, const layout *l, const piece *s,
                     const weights *t)
{
    angles angle = s->turn.cos ? angles_first(&s->turn) : (angles){0};
    for (size_t r = 0; r < s->count; r++, df += l->width) {
        for (size_t i = 0; i < l->d; i += FV_W) {
            const int n = fv_lanes(l->d - i);
            FV_UNROLL
            for (int b = 0; b < FV_BLOCKS; b++) {
                fv_v x = fv_load(df + b * l->dp + i);
                if (CENTRED) {
                    const fv_v w = fv_load(scratch + l->w + b * l->dp + i);
                    x = t ? fv_fma(fv_set(t->dw[r]), w, x) : fv_add(x, w);
                }
                if (s->turn.cos)
                    x = rotate_back(fv_first_n(x, n), &angle, s->turn.split, i, n);
                FV_UNROLL
                for (int k = 0; k < FV_STREAMS; k++) {
                    const fv_v m = fv_load(scratch + l->m + (b ^ k) * l->dp + i);
                    if (t)
                        x = fv_fma(fv_set(t->dz[k][r]), m, x);
                    else if (k == 0)
                        x = fv_add(x, m);
                }
                fv_store(df + b * l->dp + i, x);
            }
        }
        if (s->turn.cos)
            angles_next(&angle, &s->turn);
    }
}

/* Loads the gradients of the features of channels [i, i + n) of row r. */
FV_FN void gradients_at(fv_v g[FV_BLOCKS], const float *df, const layout *l, size_t r, size_t i)
{
    FV_UNROLL
    for (int b = 0; b < FV_BLOCKS; b++)
        g[b] = fv_load(df + r * l->width + b * l->dp + i);
}

/* Adds one head's terms to the sums of a block, which start at 0. */
FV_FN void add_sums(float sum[2][BLOCK], const float *df, const layout *l, const source *s,
                    int query, size_t rows)
{
#if FV_SUMS || FV_SUMS_KEY
    for (int t = 0; t < (query ? FV_SUMS : FV_SUMS_KEY); t++) {
        for (size_t r = 0; r < rows; r++) {
            fv_v add = fv_set(0.f), g[FV_BLOCKS];
            for (size_t i = 0; i < l->d; i += FV_W) {
                const int n = fv_lanes(l->d - i);
                gradients_at(g, df, l, r, i);
                const fv_v x = fv_sum_term(t, query, fv_load_n(s->x + r * s->ld + i, n), g,
                                           row_at(s, query, r, i));
                add = fv_add(add, fv_first_n(x, n));
            }
            sum[t][r] += fv_hsum(add);
        }
    }
#else
    (void)sum, (void)df, (void)l, (void)s, (void)query, (void)rows;
#endif
}

FV_FN void write_gradients(float *out, size_t ld, const float *df, float sum[2][BLOCK],
                           const layout *l, const source *s, int query, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const fv_v sums[2] = {fv_set(sum[0][r]), fv_set(sum[1][r])};
        for (size_t i = 0; i < l->d; i += FV_W) {
            const int n = fv_lanes(l->d - i);
            fv_v g[FV_BLOCKS];
            gradients_at(g, df, l, r, i);
            const fv_v x = fv_load_n(s->x + r * s->ld + i, n);
            fv_store_n(out + r * ld + i, fv_phi_grad(query, x, g, row_at(s, query, r, i), sums), n);
        }
    }
}

/* Returns the mechanism's constant, which query and key steps have in different fields. */
static float constant_of(const fv_args *a)
{
    const uint32_t op = a->prob.op;
    return a->f[op == FV_OP_LATTN_APPLY_GRAD || op == FV_OP_LATTN_STATE_GRAD ? 2 : 1];
}

/* Returns rows [at, at + count) of a head of a call. x and gate are indices of the operands. */
static piece rows_at(const fv_args *a, const fv_call *c, const layout *l, const rotation *turn,
                     int x, int gate, const float *shift, size_t head, size_t at)
{
    float *scratch = c->scratch;
    const bool shifted = SHIFT && !(a->prob.flags & FV_FLAG_UNNORMALISED);
    const size_t left = c->rows - at;
    piece s = {.x = {.x = (const float *)c->p[x] + at * a->ld[x] + head * l->d,
                     .ld = a->ld[x],
                     .param = scratch + l->param + head * FV_PARAMS * l->dp,
                     .dp = l->dp,
                     .shift = shifted ? shift : NULL,
                     .stat = scratch + l->stat,
                     .statld = BLOCK,
                     .alpha = constant_of(a)},
               .turn = rotation_after(*turn, at),
               .ldg = a->ld[gate],
               .count = left < BLOCK ? left : BLOCK};
    if (a->prob.flags & FV_FLAG_GATED)
        s.gate = (const float *)c->p[gate] + at * s.ldg + head;
    return s;
}

/* Computes the statistics of the block at row `at` for mechanisms whose statistics cover all
 * heads. */
static void wide_statistics(const fv_args *a, const fv_call *c, const layout *l, int x, int query,
                            size_t at)
{
    float *scratch = c->scratch;
    const size_t left = c->rows - at;
    const source s = {.x = (const float *)c->p[x] + at * a->ld[x],
                      .ld = a->ld[x],
                      .param = scratch + l->param,
                      .dp = l->dp,
                      .alpha = constant_of(a)};
    if (FV_STAT_WIDE)
        block_statistics(scratch + l->stat, l, s, query, left < BLOCK ? left : BLOCK);
}

/* Sets y = factor x for n values, then zeros up to np. */
static void scale_to(float *y, const float *x, size_t n, size_t np, float factor)
{
    for (size_t i = 0; i < np; i += FV_W)
        fv_store(y + i, fv_mul(fv_set(factor), fv_load_n(x + i, i < n ? fv_lanes(n - i) : 0)));
}

/* Packs the vectors of a head's state, or of the state's gradient, times `scale`. */
static void pack_vectors(float *scratch, const layout *l, const float *state, float scale)
{
    for (size_t b = 0; b < FV_BLOCKS; b++) {
        scale_to(scratch + l->m + b * l->dp, state + l->state.m + b * l->d, l->d, l->dp, scale);
        if (CENTRED)
            scale_to(scratch + l->w + b * l->dp, state + l->state.w + b * l->d, l->d, l->dp, scale);
    }
}

/* Packs S of a state or of its gradient, times `scale` and transposed: its rows are the packed
 * value channels. With `crossed`, the second stream has the feature blocks swapped, as queries read
 * them. */
static void pack_transposed(float *out, const layout *l, const float *state, float scale,
                            bool crossed)
{
    memset(out, 0, l->width * FV_STREAMS * l->streamp * sizeof *out);
    for (size_t b = 0; b < FV_BLOCKS; b++) {
        for (size_t s = 0; s < FV_STREAMS; s++) {
            const size_t block = crossed ? b ^ s : b;
            for (size_t i = 0; i < l->d; i++) {
                const float *x = state + l->state.s + (block * l->d + i) * l->dv + s * l->stream;
                float *y = out + s * l->streamp * l->width + b * l->dp + i;
                for (size_t j = 0; j < l->stream; j++)
                    y[j * l->width] = scale * x[j];
            }
        }
    }
}

/* Adds the dot products x_i.y_i of each stream to sum. */
FV_FN void dot_streams(float sum[FV_STREAMS], const layout *l, const float *x, const float *y)
{
    FV_UNROLL
    for (size_t s = 0; s < FV_STREAMS; s++) {
        fv_v add = fv_set(0.f);
        for (size_t i = 0; i < l->stream; i += FV_W) {
            const int n = fv_lanes(l->stream - i);
            add = fv_fma(fv_load_n(x + s * l->stream + i, n), fv_load_n(y + s * l->stream + i, n),
                         add);
        }
        sum[s] = fv_hsum(add);
    }
}

/* ---- queries ---- */

/* Computes the factors and gradients of a block of queries of one head from z, w, the results and
 * dout. The scratch must contain the vectors of the state. */
static void query_scales(weights *t, const fv_args *a, const layout *l, const piece *s,
                         const float *scratch, const float *state, const float *out,
                         const float *dout)
{
    const bool plain = a->prob.flags & FV_FLAG_UNNORMALISED;
    const float *f = scratch + l->features,
                *turned = scratch + (s->turn.cos ? l->turned : l->features);
    const fv_v least = fv_set(FLT_MIN), zero = fv_set(0.f);
    float z[FV_STREAMS][BLOCK], w[BLOCK], given[FV_STREAMS][BLOCK], centre[BLOCK], gates[BLOCK];
    for (size_t r = 0; r < s->count; r++) {
        const float *g = dout + r * a->ld[FV_QUERY_GRAD_DOUT];
        float sum[FV_STREAMS];
        fv_v zs[FV_STREAMS], ws = zero;
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++)
            zs[k] = zero;
        for (size_t i = 0; i < l->dp; i += FV_W) {
            FV_UNROLL
            for (int b = 0; b < FV_BLOCKS; b++) {
                const fv_v x = fv_load(f + r * l->width + b * l->dp + i);
                FV_UNROLL
                for (int k = 0; k < FV_STREAMS; k++)
                    zs[k] = fv_fma(x, fv_load(scratch + l->m + (b ^ k) * l->dp + i), zs[k]);
                if (CENTRED)
                    ws = fv_fma(fv_load(turned + r * l->width + b * l->dp + i),
                                fv_load(scratch + l->w + b * l->dp + i), ws);
            }
        }
        dot_streams(sum, l, g, out + r * a->ld[FV_QUERY_GRAD_FORWARD]);
        gates[r] = s->gate ? s->gate[r * s->ldg] : 1.f;
        w[r] = fv_hsum(ws);
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++) {
            z[k][r] = fv_hsum(zs[k]);
            given[k][r] = sum[k];
        }
        centre[r] = 0.f;
        if (CENTRED) {
            dot_streams(sum, l, g, state + l->state.vmean);
            centre[r] = gates[r] * sum[0];
        }
    }
    for (size_t r = 0; r < s->count; r += FV_W) {
        const int n = fv_lanes(s->count - r);
        const fv_v gate = fv_load_n(gates + r, n);
        fv_v eps = fv_max(least, fv_set(a->f[1])), mean = zero, dw = zero;
        if (SHIFT && a->f[1] > 0.f && !plain)
            eps = fv_max(least, fv_mul(eps, fv_exp(fv_neg(fv_load_n(s->x.stat + r, n)))));
        FV_UNROLL
        for (int k = 0; k < FV_STREAMS; k++) {
            /* The gradient is 0 where all weights are 0 (z < FLT_MIN). */
            const fv_v x = fv_load_n(z[k] + r, n);
            fv_v scale = fv_mul(gate, fv_norm(x, eps)), by = fv_load_n(given[k] + r, n);
            fv_v dz = fv_mul(fv_norm_slope(x, eps), by);
#if FV_WANTS & FV_WANT_CENTRED
            const fv_v y = fv_load_n(w + r, n), c = fv_load_n(centre + r, n);
            mean = fv_norm_mean(x, y, eps);
            dw = fv_sel_lt(x, least, zero, fv_mul(fv_norm_mean_slope_w(x, eps), c));
            dz = fv_fma(fv_norm_slope(x, eps), fv_sub(by, fv_mul(mean, c)),
                        fv_mul(fv_norm_mean_slope_z(x, y, eps), c));
            mean = fv_sel_lt(x, least, zero, fv_mul(gate, mean));
            if (plain) {
                mean = fv_mul(gate, y);
                dw = c;
            }
#endif
            fv_store_n(t->scale[k] + r, plain ? gate : fv_sel_lt(x, least, zero, scale), n);
            fv_store_n(t->dz[k] + r, plain ? zero : fv_sel_lt(x, least, zero, dz), n);
        }
        fv_store_n(t->mean + r, mean, n);
        fv_store_n(t->dw + r, dw, n);
    }
    (void)w, (void)centre; /* used only with FV_WANT_CENTRED */
}

/* Packs dout of a block in whole register tiles of rows. Each row and stream is multiplied by its
 * factor. */
static void pack_dout(float *out, const weights *t, const layout *l, const float *dout, size_t ld,
                      size_t rows)
{
    for (size_t r = 0; r < rows; r++, out += l->dvp) {
        for (size_t s = 0; s < FV_STREAMS; s++)
            scale_to(out + s * l->streamp, dout + r * ld + s * l->stream, l->stream,
                     s + 1 < FV_STREAMS ? l->streamp : l->dvp - s * l->streamp, t->scale[s][r]);
    }
    memset(out, 0, (fv_tile_round(rows, FV_TILE_M) - rows) * l->dvp * sizeof *out);
}

/* Computes features, factors and packed dout of a block of queries. */
static void prepare_queries(const fv_args *a, const fv_call *c, const layout *l, const piece *s,
                            weights *t, const float *state, size_t h, size_t at)
{
    float *scratch = c->scratch;
    const size_t ldg = a->ld[FV_QUERY_GRAD_DOUT], ldf = a->ld[FV_QUERY_GRAD_FORWARD];
    const float *dout = (const float *)c->p[FV_QUERY_GRAD_DOUT] + at * ldg + h * l->dv;
    const float *out = (const float *)c->p[FV_QUERY_GRAD_FORWARD] + at * ldf + h * l->dv;
    if (!FV_STAT_WIDE)
        block_statistics(scratch + l->stat, l, s->x, 1, s->count);
    map_rows(scratch, l, s, 1);
    query_scales(t, a, l, s, scratch, state, out, dout);
    pack_dout(scratch + l->values, t, l, dout, ldg, s->count);
}

static const float *state_of(const fv_call *c, const layout *l, int operand, size_t head)
{
    return (const float *)c->p[operand] + head * l->state.floats;
}

/* Returns the shift of a head times -1, because queries use the opposite sign. */
static const float *negative_shift(const fv_call *c, const layout *l, const float *state)
{
    float *shift = (float *)c->scratch + l->shift;
    if (SHIFT)
        scale_to(shift, state + l->state.shift, l->d, l->dp, -1.f);
    return shift;
}

/* Computes the gradients of the features of a block of queries of one head. */
static void query_features(float *df, const fv_args *a, const fv_call *c, const layout *l,
                           const piece *s, const float *state, size_t h, size_t at)
{
    weights t;
    prepare_queries(a, c, l, s, &t, state, h, at);
    multiply_rows(df, (const float *)c->scratch + l->values,
                  (const float *)c->scratch + l->transposed, l, s->count);
    turn_back(df, c->scratch, l, s, &t);
}

void KERNEL(fv_k_lattn_apply_grad_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const fv_v alpha = fv_set(a->f[2]);
    const size_t first = FV_STAT_WIDE ? 0 : c->col0;
    const size_t last = FV_STAT_WIDE ? l.heads : (size_t)c->col0 + c->cols;
    float *scratch = c->scratch;
    const rotation turn = rotation_at(a, c, FV_APPLY_COS, FV_APPLY_SIN, l.d, scratch + l.turn);
    finish_params(scratch + l.param, c->p[FV_APPLY_PARAM], l.heads, l.d, l.dp, alpha);
    /* Where statistics cover all heads, blocks are the outer loop, and each state is packed again
     * for every block. */
    const size_t step = FV_STAT_WIDE ? BLOCK : c->rows;
    for (size_t begin = 0; begin < c->rows; begin += step) {
        float sum[2][BLOCK] = {{0.f}};
        wide_statistics(a, c, &l, FV_APPLY_Q, 1, begin);
        for (size_t h = first; h < last; h++) {
            const float *state = state_of(c, &l, FV_APPLY_STATE, h);
            const float *shift = negative_shift(c, &l, state);
            float *df = scratch + l.df + (FV_STAT_WIDE ? h * BLOCK * l.width : 0);
            pack_vectors(scratch, &l, state, a->f[0]);
            pack_transposed(scratch + l.transposed, &l, state, a->f[0], true);
            for (size_t at = begin; at < c->rows && at < begin + step; at += BLOCK) {
                const piece s = rows_at(a, c, &l, &turn, FV_APPLY_Q, FV_APPLY_GATE, shift, h, at);
                query_features(df, a, c, &l, &s, state, h, at);
                if (!FV_STAT_WIDE)
                    memset(sum, 0, sizeof sum);
                add_sums(sum, df, &l, &s.x, 1, s.count);
                if (!FV_STAT_WIDE)
                    write_gradients((float *)c->p[FV_QUERY_GRAD_OUT] +
                                        at * a->ld[FV_QUERY_GRAD_OUT] + h * l.d,
                                    a->ld[FV_QUERY_GRAD_OUT], df, sum, &l, &s.x, 1, s.count);
            }
        }
        for (size_t h = c->col0; FV_STAT_WIDE && h < (size_t)c->col0 + c->cols; h++) {
            const piece s = rows_at(a, c, &l, &turn, FV_APPLY_Q, FV_APPLY_GATE, NULL, h, begin);
            write_gradients((float *)c->p[FV_QUERY_GRAD_OUT] + begin * a->ld[FV_QUERY_GRAD_OUT] +
                                h * l.d,
                            a->ld[FV_QUERY_GRAD_OUT], scratch + l.df + h * BLOCK * l.width, sum, &l,
                            &s.x, 1, s.count);
        }
    }
}

/* ---- the state ---- */

FV_FN void put(float *y, fv_v x, int n, bool add)
{
    fv_store_n(y, add ? fv_add(fv_load_n(y, n), x) : x, n);
}

/* Adds a block's part of the gradient of S: the transposed rotated features times packed dout.
 * Stream s of feature block b is added to block b ^ s. */
static void multiply_state(float *part, const float *turned, const float *values, const layout *l,
                           size_t rows, float scale, bool add)
{
    const fv_v factor = fv_set(scale);
    for (size_t j = 0; j < FV_STREAMS * l->streamp; j += FV_TILE_COLS) {
        for (size_t i = 0; i < l->width; i += FV_TILE_M) {
            const size_t b = i / l->dp, channel = i % l->dp;
            if (channel >= l->d)
                continue;
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, turned + i, 1, l->width, values + j, l->dvp, rows);
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                if (channel + r >= l->d)
                    break;
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    const size_t packed = j + (size_t)v * FV_W;
                    const size_t k = FV_STREAMS > 1 && packed >= l->streamp;
                    const size_t col = packed - k * l->streamp;
                    if (col < l->stream)
                        put(part + l->state.s + ((b ^ k) * l->d + channel + r) * l->dv +
                                k * l->stream + col,
                            fv_mul(factor, acc[r][v]), fv_lanes(l->stream - col), add);
                }
            }
        }
    }
}

/* Computes y = scale times the sum over rows of by[r] x[r], for n values of each row. */
static void sum_rows(float *y, const float *x, size_t ld, const float *by, size_t rows, size_t n,
                     float scale, bool add)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_v sum = fv_set(0.f);
        for (size_t r = 0; r < rows; r++)
            sum = fv_fma(fv_set(by[r]), fv_load_n(x + r * ld + i, lanes), sum);
        put(y + i, fv_mul(fv_set(scale), sum), lanes, add);
    }
}

/* Sums each block separately, and adds the sum to the partial state. */
static void state_head(float *part, const fv_args *a, const fv_call *c, const layout *l,
                       const rotation *turn, size_t h)
{
    float *scratch = c->scratch;
    const float *state = state_of(c, l, FV_APPLY_STATE, h);
    const float *shift = negative_shift(c, l, state);
    weights t;
    for (size_t i = l->state.count; c->first && i < l->state.floats; i++)
        part[i] = 0.f; /* the count and the shift have no gradient */
    for (size_t at = 0; at < c->rows; at += BLOCK) {
        const bool add = !c->first || at > 0;
        const piece s = rows_at(a, c, l, turn, FV_APPLY_Q, FV_APPLY_GATE, shift, h, at);
        const float *f = scratch + l->features;
        const float *turned = s.turn.cos ? scratch + l->turned : f;
        wide_statistics(a, c, l, FV_APPLY_Q, 1, at);
        pack_vectors(scratch, l, state, a->f[0]);
        prepare_queries(a, c, l, &s, &t, state, h, at);
        multiply_state(part, turned, scratch + l->values, l, s.count, a->f[0], add);
        for (size_t b = 0; b < FV_BLOCKS; b++) {
            for (size_t k = 0; k < FV_STREAMS; k++)
                sum_rows(part + l->state.m + (b ^ k) * l->d, f + b * l->dp, l->width, t.dz[k],
                         s.count, l->d, a->f[0], add || (FV_STREAMS > 1 && b > 0));
            if (CENTRED)
                sum_rows(part + l->state.w + b * l->d, turned + b * l->dp, l->width, t.dw, s.count,
                         l->d, a->f[0], add);
        }
        if (CENTRED)
            sum_rows(part + l->state.vmean,
                     (const float *)c->p[FV_QUERY_GRAD_DOUT] + at * a->ld[FV_QUERY_GRAD_DOUT] +
                         h * l->dv,
                     a->ld[FV_QUERY_GRAD_DOUT], t.mean, s.count, l->dv, 1.f, add);
    }
}

void KERNEL(fv_k_lattn_state_grad_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const rotation turn =
        rotation_at(a, c, FV_APPLY_COS, FV_APPLY_SIN, l.d, (float *)c->scratch + l.turn);
    finish_params((float *)c->scratch + l.param, c->p[FV_APPLY_PARAM], l.heads, l.d, l.dp,
                  fv_set(a->f[2]));
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
        state_head((float *)c->p[FV_QUERY_GRAD_OUT] + h * l.state.floats, a, c, &l, &turn, h);
}

/* ---- keys ---- */

/* Packs the gradients of S (also transposed), m and w of one head, all times f[0]. Also packs the
 * vector dvmean - w dS, which is added to the gradient of every row of values. */
static void pack_keys(const fv_args *a, const fv_call *c, const layout *l, size_t h, bool values)
{
    float *scratch = c->scratch, *row = scratch + l->row;
    const float *state = state_of(c, l, FV_KEY_GRAD_STATE, h);
    const float *dstate = state_of(c, l, FV_KEY_GRAD_DSTATE, h);
    pack_vectors(scratch, l, dstate, a->f[0]);
    pack_transposed(scratch + l->transposed, l, dstate, a->f[0], false);
    if (SHIFT)
        scale_to(scratch + l->shift, state + l->state.shift, l->d, l->dp, 1.f);
    if (!values)
        return;
    if (CENTRED)
        scale_to(row, dstate + l->state.vmean, l->dv, l->dvp, a->f[0]);
    for (size_t i = 0; i < l->width; i++) {
        float *to = scratch + l->matrix + i * l->dvp;
        const size_t b = i / l->dp, channel = i % l->dp, from = b * l->d + channel;
        if (channel >= l->d) {
            memset(to, 0, l->dvp * sizeof *to);
            continue;
        }
        scale_to(to, dstate + l->state.s + from * l->dv, l->dv, l->dvp, a->f[0]);
        const fv_v w = fv_set(CENTRED ? -state[l->state.w + from] : 0.f);
        for (size_t j = 0; CENTRED && j < l->dvp; j += FV_W)
            fv_store(row + j, fv_fma(w, fv_load(to + j), fv_load(row + j)));
    }
}

/* Packs values, minus their mean if the mechanism uses it, in whole register tiles of rows. */
static void pack_values(float *out, const layout *l, const float *v, size_t ld, const float *state,
                        size_t rows)
{
    for (size_t r = 0; r < rows; r++, out += l->dvp) {
        for (size_t s = 0; s < FV_STREAMS; s++)
            scale_to(out + s * l->streamp, v + r * ld + s * l->stream, l->stream,
                     s + 1 < FV_STREAMS ? l->streamp : l->dvp - s * l->streamp, 1.f);
        for (size_t j = 0; CENTRED && j < l->dv; j += FV_W)
            fv_store(out + j, fv_sub(fv_load(out + j),
                                     fv_load_n(state + l->state.vmean + j, fv_lanes(l->dv - j))));
    }
    memset(out, 0, (fv_tile_round(rows, FV_TILE_M) - rows) * l->dvp * sizeof *out);
}

/* Computes dv = g turned dS + row. */
static void write_values(float *out, size_t ld, const float *scratch, const layout *l,
                         const piece *s)
{
    const float *turned = scratch + (s->turn.cos ? l->turned : l->features);
    for (size_t i = 0; i < s->count; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, turned + i * l->width, l->width, 1, scratch + l->matrix + j, l->dvp,
                    l->width - l->dp + l->d);
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                if (i + r >= s->count)
                    break;
                const fv_v gate = fv_set(s->gate ? s->gate[(i + r) * s->ldg] : 1.f);
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    const size_t col = j + (size_t)v * FV_W;
                    fv_v x = fv_mul(gate, acc[r][v]);
                    if (CENTRED)
                        x = fv_add(x, fv_load(scratch + l->row + col));
                    if (col < l->dv)
                        fv_store_n(out + (i + r) * ld + col, x, fv_lanes(l->dv - col));
                }
            }
        }
    }
}

/* Computes the gradients of the features of a block of keys of one head, gated or not. */
static void key_features(float *df, const fv_args *a, const fv_call *c, const layout *l,
                         const piece *s, size_t h, size_t at, bool gated)
{
    float *scratch = c->scratch;
    const float *v = (const float *)c->p[FV_REDUCE_V] + at * a->ld[FV_REDUCE_V] + h * l->dv;
    if (!FV_STAT_WIDE)
        block_statistics(scratch + l->stat, l, s->x, 0, s->count);
    map_rows(scratch, l, s, 0);
    pack_values(scratch + l->values, l, v, a->ld[FV_REDUCE_V], state_of(c, l, FV_KEY_GRAD_STATE, h),
                s->count);
    multiply_rows(df, scratch + l->values, scratch + l->transposed, l, s->count);
    turn_back(df, scratch, l, s, NULL);
    for (size_t r = 0; gated && s->gate && r < s->count; r++)
        scale_to(df + r * l->width, df + r * l->width, l->width, l->width, s->gate[r * s->ldg]);
}

void KERNEL(fv_k_lattn_reduce_grad_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const fv_v alpha = fv_set(a->f[1]);
    const size_t first = FV_STAT_WIDE ? 0 : c->col0;
    const size_t last = FV_STAT_WIDE ? l.heads : (size_t)c->col0 + c->cols;
    const size_t ld = a->ld[FV_KEY_GRAD_OUT], step = FV_STAT_WIDE ? BLOCK : c->rows;
    float *scratch = c->scratch, *out = c->p[FV_KEY_GRAD_OUT];
    const rotation turn = rotation_at(a, c, FV_REDUCE_COS, FV_REDUCE_SIN, l.d, scratch + l.turn);
    finish_params(scratch + l.param, c->p[FV_REDUCE_PARAM], l.heads, l.d, l.dp, alpha);
    for (size_t begin = 0; begin < c->rows; begin += step) {
        float sum[2][BLOCK] = {{0.f}};
        wide_statistics(a, c, &l, FV_REDUCE_K, 0, begin);
        for (size_t h = first; h < last; h++) {
            const bool own = h >= c->col0 && h < (size_t)c->col0 + c->cols;
            float *df = scratch + l.df + (FV_STAT_WIDE ? h * BLOCK * l.width : 0);
            pack_keys(a, c, &l, h, own);
            for (size_t at = begin; at < c->rows && at < begin + step; at += BLOCK) {
                const piece s =
                    rows_at(a, c, &l, &turn, FV_REDUCE_K, FV_REDUCE_GATE, scratch + l.shift, h, at);
                key_features(df, a, c, &l, &s, h, at, true);
                if (own)
                    write_values(out + at * ld + l.heads * l.d + h * l.dv, ld, scratch, &l, &s);
                if (!FV_STAT_WIDE)
                    memset(sum, 0, sizeof sum);
                add_sums(sum, df, &l, &s.x, 0, s.count);
                if (!FV_STAT_WIDE)
                    write_gradients(out + at * ld + h * l.d, ld, df, sum, &l, &s.x, 0, s.count);
            }
        }
        for (size_t h = c->col0; FV_STAT_WIDE && h < (size_t)c->col0 + c->cols; h++) {
            const piece s = rows_at(a, c, &l, &turn, FV_REDUCE_K, FV_REDUCE_GATE, NULL, h, begin);
            write_gradients(out + begin * ld + h * l.d, ld, scratch + l.df + h * BLOCK * l.width,
                            sum, &l, &s.x, 0, s.count);
        }
    }
}

void KERNEL(fv_k_lattn_gate_grad_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    const fv_v alpha = fv_set(a->f[1]);
    float *scratch = c->scratch, *df = scratch + l.df;
    const rotation turn = rotation_at(a, c, FV_REDUCE_COS, FV_REDUCE_SIN, l.d, scratch + l.turn);
    finish_params(scratch + l.param, c->p[FV_REDUCE_PARAM], l.heads, l.d, l.dp, alpha);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        pack_keys(a, c, &l, h, false);
        for (size_t at = 0; at < c->rows; at += BLOCK) {
            const piece s =
                rows_at(a, c, &l, &turn, FV_REDUCE_K, FV_REDUCE_GATE, scratch + l.shift, h, at);
            wide_statistics(a, c, &l, FV_REDUCE_K, 0, at);
            key_features(df, a, c, &l, &s, h, at, false);
            for (size_t r = 0; r < s.count; r++) {
                fv_v sum = fv_set(0.f);
                for (int b = 0; b < FV_BLOCKS; b++) {
                    for (size_t i = 0; i < l.d; i += FV_W) {
                        const size_t from = r * l.width + b * l.dp + i;
                        sum = fv_fma(fv_first_n(fv_load(df + from), fv_lanes(l.d - i)),
                                     fv_load(scratch + l.features + from), sum);
                    }
                }
                float *out = (float *)c->p[FV_KEY_GRAD_OUT] + (at + r) * a->ld[FV_KEY_GRAD_OUT];
                out[h] = fv_hsum(sum) * (s.gate ? s.gate[r * s.ldg] : 1.f);
            }
        }
    }
}

/* ---- learned vectors ---- */

#if FV_PARAMS
void KERNEL(fv_k_lattn_param_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t columns = a->prob.dim[FV_PARAM_GRAD_COLUMNS];
    const size_t tokens = a->prob.dim[FV_PARAM_GRAD_ROWS];
    const float *raw = c->p[FV_PARAM_GRAD_PARAM], *x = c->p[FV_PARAM_GRAD_X];
    const float *dx = c->p[FV_PARAM_GRAD_DX];
    const fv_v alpha = fv_set(a->f[0]);
    for (size_t p = 0; p < c->rows; p++) {
        const int which = (int)(c->row0 + p);
        float *out = (float *)c->p[FV_PARAM_GRAD_OUT] + p * a->ld[FV_PARAM_GRAD_OUT];
        for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i += FV_W) {
            const int n = fv_lanes(c->col0 + c->cols - i);
            fv_row row = {.shift = fv_set(0.f)};
            fv_v sum = fv_set(0.f);
            FV_UNROLL
            for (int k = 0; k < FV_PARAMS; k++)
                row.param[k] = fv_param(k, fv_load_n(raw + (size_t)k * columns + i, n), alpha);
            for (size_t begin = 0; begin < tokens; begin += BLOCK) {
                fv_v part = fv_set(0.f);
                for (size_t r = begin; r < tokens && r < begin + BLOCK; r++)
                    part = fv_add(
                        part,
                        fv_param_term(which, fv_load_n(x + r * a->ld[FV_PARAM_GRAD_X] + i, n),
                                      fv_load_n(dx + r * a->ld[FV_PARAM_GRAD_DX] + i, n), row));
                sum = fv_add(sum, part);
            }
            const fv_v own = fv_load_n(raw + (size_t)which * columns + i, n);
            put(out + i, fv_mul(sum, fv_param_slope(which, own, alpha)), n,
                a->prob.flags & FV_FLAG_ACCUMULATE);
        }
    }
}
#endif

/* ---- hooks ---- */

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows).floats * sizeof(float);
}

const fv_kernel_hooks KERNEL(fv_h_lattn_grad_f32) = {
    .applies = applies, .rate = RATE, .scratch = scratch_bytes};
