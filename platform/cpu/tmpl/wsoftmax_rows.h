/* wsoftmax_rows.h: computes WSOFTMAX with vec.h's vector functions, with operands in float32 or in
 * bfloat16 (operands.h).
 *
 * Keys are spread across the lanes: the table of a head is added to whole rows of scores unchanged,
 * and only K has to be transposed:
 *
 *   for each head, for each window:   Kt [d][keys], Q, V packed
 *                                     S   = Q Kt scale log2(e) + table log2(e)   [queries][keys]
 *                                     (or relative positions, spread over a row of the table)
 *                                     P   = 2^(S - max S)
 *                                     out = P V / sum P
 *
 * With float32 operands the queries are scaled, with bfloat16 the scores. P is rounded like the
 * operands before it is summed.
 */
#ifndef FOVEA_PLATFORM_WSOFTMAX_ROWS_H
#define FOVEA_PLATFORM_WSOFTMAX_ROWS_H

#include "ops/contracts/softmax_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/fetch.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/operands.h"

#include <stdbool.h>

#define LOG2_E 1.44269504f

/* Sizes of a problem, and offsets of the parts of its scratch. The names with `p` are rounded up to
 * whole tiles or steps. */
typedef struct layout {
    size_t d, dp, dv, keys, lanesp, rowsp, dvp;
    size_t width, height; /* size of a window's grid if relative positions are added, else 0 */
    size_t q, kt, v, s, part, rank, seen, row, rel, floats;
} layout;

static layout lay_out(const fv_problem *p)
{
    layout l = {.d = p->dim[FV_ATTN_D],
                .dv = p->dim[FV_ATTN_DV],
                .keys = p->dim[FV_ATTN_KEYS],
                .width = p->dim[FV_REL_POS_COLUMNS]};
    l.height = l.width ? l.keys / l.width : 0;
    l.dp = fv_operand_steps(l.d);
    l.lanesp = fv_tile_round(l.keys, FV_TILE_COLS);
    l.rowsp = fv_tile_round(l.keys, FV_TILE_M);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    l.kt = l.q + fv_operand_floats(l.rowsp * l.dp);
    l.v = l.kt + fv_operand_floats(l.dp * l.lanesp);
    l.s = l.v + fv_operand_floats(fv_tile_round(l.keys, 2) * l.dvp);
    l.part = l.s + l.rowsp * l.lanesp;
    l.rank = l.part + l.rowsp;
    l.seen = l.rank + l.lanesp;
    l.row = l.seen + l.keys;
    l.rel = l.row + l.dp;
    l.floats = l.rel + (l.width ? l.keys : 0);
    return l;
}

/* The window of one head. */
typedef struct window {
    const void *q, *k, *v;
    const float *bias; /* NULL: no bias. A row of keys for each query, or of relative positions */
    void *out;
    enum fv_type type_q, type_k, type_v, type_out;
    size_t ldq, ldk, ldv, ldb, ldo;
    float scale; /* factor of the scores, including log2(e) */
    /* Whether the window has tokens of more than one region. */
    bool mixed;
    const void *next_q, *next_k, *next_v; /* the rows to be read next, for prefetching */
} window;

/* Numbers the regions in the order of their appearance, so that floats represent them exactly.
 * Returns false if all tokens are in one region. `seen` is a buffer of n. */
static bool rank_regions(float *rank, uint32_t *seen, const uint32_t *region, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < count && seen[k] != region[i])
            k++;
        if (k == count)
            seen[count++] = region[i];
        rank[i] = (float)k;
    }
    return count > 1;
}

static void pack(float *scratch, const layout *l, const window *w)
{
    fv_operand_elem *q = (fv_operand_elem *)(scratch + l->q),
                    *kt = (fv_operand_elem *)(scratch + l->kt);
    const fv_v factor = fv_set(w->scale);
    for (size_t r = 0; r < l->keys; r++) {
        const void *row = fv_element(w->q, w->type_q, r * w->ldq);
        for (size_t i = 0; i < l->dp; i += FV_W) {
            const fv_v x = fv_row_load(row, w->type_q, i, fv_lanes(l->d - i));
            fv_operand_put_row(q + r * l->dp, i, FV_EXACT ? fv_mul(factor, x) : x,
                               fv_lanes(l->dp - i));
        }
    }
    memset(q + l->keys * l->dp, 0, (l->rowsp - l->keys) * l->dp * sizeof *q);
    memset(kt, 0, l->dp * l->lanesp * sizeof *kt);
    for (size_t j = 0; j < l->keys; j++)
        fv_operand_put_column(kt, l->lanesp, j,
                              fv_operand_row((fv_operand_elem *)(scratch + l->row),
                                             fv_element(w->k, w->type_k, j * w->ldk), w->type_k,
                                             l->d),
                              l->dp);
    fv_operand_pack_depth((fv_operand_elem *)(scratch + l->v), l->dvp, w->v, w->type_v, w->ldv,
                          l->keys, l->dv);
}

/* S = Q Kt */
static void score(float *scratch, const layout *l, const window *w)
{
    const fv_operand_elem *q = (const fv_operand_elem *)(scratch + l->q);
    const fv_operand_elem *kt = (const fv_operand_elem *)(scratch + l->kt);
    for (size_t i = 0; i < l->rowsp; i += FV_TILE_M) {
        for (size_t j = 0; j < l->lanesp; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_operand_tile(acc, FV_TILE_N, q + i * l->dp, l->dp, 1, kt + FV_PAIR * j, l->lanesp,
                            l->dp);
            fv_tile_store(scratch + l->s + i * l->lanesp + j, l->lanesp, acc);
        }
        const size_t end = i + FV_TILE_M < l->keys ? i + FV_TILE_M : l->keys;
        fv_fetch_rows_of(w->next_q, w->type_q, w->ldq, i, end, l->d);
        fv_fetch_rows_of(w->next_k, w->type_k, w->ldk, i, end, l->d);
        fv_fetch_rows_of(w->next_v, w->type_v, w->ldv, i, end, l->dv);
    }
}

/* Expands the relative positions of query r to the terms that are added to each key's score. */
FV_FN const float *spread(float *scratch, const layout *l, const window *w, size_t r)
{
    const float *down = w->bias + r * w->ldb, *across = down + l->height;
    float *to = scratch + l->rel;
    for (size_t y = 0; y < l->height; y++)
        for (size_t x = 0; x < l->width; x++)
            *to++ = down[y] + across[x];
    return scratch + l->rel;
}

/* Converts scores to weights, in place; part = 1 / their sum. */
FV_FN void exponentiate(float *scratch, const layout *l, const window *w, bool bias, bool mixed)
{
    const float *rank = scratch + l->rank;
    for (size_t r = 0; r < l->keys; r++) {
        float *s = scratch + l->s + r * l->lanesp;
        const float *row = !bias      ? NULL
                           : l->width ? spread(scratch, l, w, r)
                                      : w->bias + r * w->ldb;
        const fv_v region = mixed ? fv_set(rank[r]) : fv_set(0.f), none = fv_set(-INFINITY);
        fv_v top = none, sum = fv_set(0.f);
        for (size_t j = 0; j < l->keys; j += FV_W) {
            const int n = fv_lanes(l->keys - j);
            fv_v x = FV_EXACT ? fv_load(s + j) : fv_mul(fv_load(s + j), fv_set(w->scale));
            if (bias)
                x = fv_fma(fv_load_n(row + j, n), fv_set(LOG2_E), x);
            if (mixed)
                x = fv_sel_lt(fv_abs(fv_sub(fv_load(rank + j), region)), fv_set(0.5f), x,
                              fv_sub(x, fv_set(100.f * LOG2_E)));
            x = n < FV_W ? fv_blend_n(x, none, n) : x;
            fv_store(s + j, x);
            top = fv_max(top, x);
        }
        top = fv_set(fv_hmax(top));
        for (size_t j = 0; j < l->keys; j += FV_W) {
            const fv_v x = fv_sub(fv_load(s + j), top);
            sum = fv_operand_put_row_sum((fv_operand_elem *)s, j,
                                         FV_EXACT ? fv_exp2_neg(x) : fv_exp2_neg_rough(x), sum);
        }
        scratch[l->part + r] = 1.f / fv_hsum(sum);
    }
}

/* out = P V part */
static void write_out(const float *scratch, const layout *l, const window *w)
{
    const float *part = scratch + l->part;
    const fv_operand_elem *p = (const fv_operand_elem *)(scratch + l->s);
    const fv_operand_elem *values = (const fv_operand_elem *)(scratch + l->v);
    /* Row stride of the weights, which are stored in place of the scores. */
    const size_t ld = FV_PAIR * l->lanesp;
    for (size_t i = 0; i < l->keys; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_operand_tile(acc, FV_TILE_N, p + i * ld, ld, 1, values + FV_PAIR * j, l->dvp,
                            fv_operand_steps(l->keys));
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                if (i + r >= l->keys)
                    break;
                FV_UNROLL
                for (int c = 0; c < FV_TILE_N; c++) {
                    const size_t col = j + (size_t)c * FV_W;
                    if (col < l->dv)
                        fv_row_store(fv_element(w->out, w->type_out, (i + r) * w->ldo), w->type_out,
                                     col, fv_mul(acc[r][c], fv_set(part[i + r])),
                                     fv_lanes(l->dv - col));
                }
            }
        }
    }
}

static void attend(float *scratch, const layout *l, const window *w)
{
    pack(scratch, l, w);
    score(scratch, l, w);
    if (w->bias && w->mixed)
        exponentiate(scratch, l, w, true, true);
    else if (w->bias)
        exponentiate(scratch, l, w, true, false);
    else if (w->mixed)
        exponentiate(scratch, l, w, false, true);
    else
        exponentiate(scratch, l, w, false, false);
    write_out(scratch, l, w);
}

/* Row r of an operand, from column `column` on. */
FV_FN void *rows_at(const fv_args *a, const fv_call *c, int operand, size_t r, size_t column)
{
    return fv_element(c->p[operand], fv_operand_row_type(a, operand), r * a->ld[operand] + column);
}

static void attend_windows(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob);
    const uint32_t *region = a->table;
    float *scratch = c->scratch;
    window w = {.type_q = fv_operand_row_type(a, FV_WINDOW_Q),
                .type_k = fv_operand_row_type(a, FV_WINDOW_K),
                .type_v = fv_operand_row_type(a, FV_WINDOW_V),
                .type_out = fv_operand_row_type(a, FV_WINDOW_OUT),
                .ldq = a->ld[FV_WINDOW_Q],
                .ldk = a->ld[FV_WINDOW_K],
                .ldv = a->ld[FV_WINDOW_V],
                .ldb = a->ld[FV_WINDOW_PARAM],
                .ldo = a->ld[FV_WINDOW_OUT],
                .scale = a->f[0] * LOG2_E};
    memset(scratch + l.rank, 0, l.lanesp * sizeof *scratch);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        if (c->p[FV_WINDOW_PARAM] && !l.width)
            w.bias = (const float *)c->p[FV_WINDOW_PARAM] + h * l.keys * w.ldb;
        for (size_t r = 0; r < c->rows; r += l.keys) {
            const bool last = r + l.keys == c->rows;
            const size_t next = last ? 0 : r + l.keys, next_h = last ? h + 1 : h;
            w.q = rows_at(a, c, FV_WINDOW_Q, r, h * l.d);
            w.k = rows_at(a, c, FV_WINDOW_K, r, h * l.d);
            w.v = rows_at(a, c, FV_WINDOW_V, r, h * l.dv);
            w.out = rows_at(a, c, FV_WINDOW_OUT, r, h * l.dv);
            if (l.width)
                w.bias = rows_at(a, c, FV_WINDOW_PARAM, r, h * (l.height + l.width));
            w.next_q = rows_at(a, c, FV_WINDOW_Q, next, next_h * l.d);
            w.next_k = rows_at(a, c, FV_WINDOW_K, next, next_h * l.d);
            w.next_v = rows_at(a, c, FV_WINDOW_V, next, next_h * l.dv);
            w.mixed = region && rank_regions(scratch + l.rank, (uint32_t *)c->scratch + l.seen,
                                             region + c->row0 + r, l.keys);
            attend(scratch, &l, &w);
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out(p).floats * sizeof(float);
}

#endif
