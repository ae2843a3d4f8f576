/* wsoftmax_tmpl.c: WSOFTMAX over the vector vocabulary.
 *
 * Keys lie across the lanes: the table of a head is added to whole rows of scores as it is, and
 * only K has to be transposed:
 *
 *   for each head, for each window:   Kt [d][keys], Q scaled with log2(e), V packed
 *                                     S   = Q Kt + table            [queries][keys]
 *                                     P   = 2^(S - max S)
 *                                     out = P V / sum P
 */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/fetch.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/tile.h"

#include <stdbool.h>

#define LOG2_E 1.44269504f

/* Sizes of a problem, `p` rounded up to whole tiles, and the parts of its scratch. */
typedef struct layout {
    size_t d, dv, keys, lanesp, rowsp, dvp;
    size_t q, kt, v, s, part, rank, seen, floats;
} layout;

static layout lay_out(const fv_problem *p)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV], .keys = p->dim[FV_ATTN_KEYS]};
    l.lanesp = fv_tile_round(l.keys, FV_TILE_COLS);
    l.rowsp = fv_tile_round(l.keys, FV_TILE_M);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    l.kt = l.q + l.rowsp * l.d;
    l.v = l.kt + l.d * l.lanesp;
    l.s = l.v + l.keys * l.dvp;
    l.part = l.s + l.rowsp * l.lanesp;
    l.rank = l.part + l.rowsp;
    l.seen = l.rank + l.lanesp;
    l.floats = l.seen + l.keys;
    return l;
}

/* The window of one head. */
typedef struct window {
    const float *q, *k, *v, *bias; /* bias NULL: none */
    float *out;
    size_t ldq, ldk, ldv, ldb, ldo;
    bool mixed;                            /* there is more than one region in it */
    const float *next_q, *next_k, *next_v; /* what is read after it */
} window;

/* Ranks of regions, in order of appearance, which floats represent exactly. False when all regions
 * are the same. `seen` has room for n. */
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

static void pack(float *scratch, const layout *l, const window *w, float scale)
{
    float *q = scratch + l->q, *kt = scratch + l->kt;
    const fv_v factor = fv_set(scale * LOG2_E);
    for (size_t r = 0; r < l->keys; r++) {
        for (size_t i = 0; i < l->d; i += FV_W) {
            const int n = fv_lanes(l->d - i);
            fv_store_n(q + r * l->d + i, fv_mul(factor, fv_load_n(w->q + r * w->ldq + i, n)), n);
        }
    }
    memset(q + l->keys * l->d, 0, (l->rowsp - l->keys) * l->d * sizeof *q);
    for (size_t i = 0; i < l->d; i++) {
        for (size_t j = 0; j < l->keys; j++)
            kt[i * l->lanesp + j] = w->k[j * w->ldk + i];
        for (size_t j = l->keys; j < l->lanesp; j++)
            kt[i * l->lanesp + j] = 0.f;
    }
    fv_tile_pack(scratch + l->v, l->dvp, w->v, w->ldv, l->keys, l->dv);
}

/* S = Q Kt */
static void score(float *scratch, const layout *l, const window *w)
{
    for (size_t i = 0; i < l->rowsp; i += FV_TILE_M) {
        for (size_t j = 0; j < l->lanesp; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, scratch + l->q + i * l->d, l->d, 1, scratch + l->kt + j, l->lanesp, l->d);
            fv_tile_store(scratch + l->s + i * l->lanesp + j, l->lanesp, acc);
        }
        const size_t end = i + FV_TILE_M < l->keys ? i + FV_TILE_M : l->keys;
        fv_fetch_rows(w->next_q, w->ldq, i, end, l->d);
        fv_fetch_rows(w->next_k, w->ldk, i, end, l->d);
        fv_fetch_rows(w->next_v, w->ldv, i, end, l->dv);
    }
}

/* Turns scores into weights; part = 1 / their sum. */
FV_FN void exponentiate(float *scratch, const layout *l, const window *w, bool bias, bool mixed)
{
    const float *rank = scratch + l->rank;
    for (size_t r = 0; r < l->keys; r++) {
        float *s = scratch + l->s + r * l->lanesp;
        const fv_v region = mixed ? fv_set(rank[r]) : fv_set(0.f), none = fv_set(-INFINITY);
        fv_v top = none, sum = fv_set(0.f);
        for (size_t j = 0; j < l->keys; j += FV_W) {
            const int n = fv_lanes(l->keys - j);
            fv_v x = fv_load(s + j);
            if (bias)
                x = fv_fma(fv_load_n(w->bias + r * w->ldb + j, n), fv_set(LOG2_E), x);
            if (mixed)
                x = fv_sel_lt(fv_abs(fv_sub(fv_load(rank + j), region)), fv_set(0.5f), x,
                              fv_sub(x, fv_set(100.f * LOG2_E)));
            x = n < FV_W ? fv_blend_n(x, none, n) : x;
            fv_store(s + j, x);
            top = fv_max(top, x);
        }
        top = fv_set(fv_hmax(top));
        for (size_t j = 0; j < l->keys; j += FV_W) {
            const fv_v p = fv_exp2_neg(fv_sub(fv_load(s + j), top));
            fv_store(s + j, p);
            sum = fv_add(sum, p);
        }
        scratch[l->part + r] = 1.f / fv_hsum(sum);
    }
}

/* out = P V part */
static void write_out(const float *scratch, const layout *l, const window *w)
{
    const float *part = scratch + l->part;
    for (size_t i = 0; i < l->keys; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, scratch + l->s + i * l->lanesp, l->lanesp, 1, scratch + l->v + j, l->dvp,
                    l->keys);
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                if (i + r >= l->keys)
                    break;
                FV_UNROLL
                for (int c = 0; c < FV_TILE_N; c++) {
                    const size_t col = j + (size_t)c * FV_W;
                    if (col < l->dv)
                        fv_store_n(w->out + (i + r) * w->ldo + col,
                                   fv_mul(acc[r][c], fv_set(part[i + r])), fv_lanes(l->dv - col));
                }
            }
        }
    }
}

static void attend(float *scratch, const layout *l, const window *w, float scale)
{
    pack(scratch, l, w, scale);
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

void FV_NAME(fv_k_wsoftmax_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob);
    const uint32_t *region = a->table;
    float *scratch = c->scratch;
    window w = {.ldq = a->ld[FV_WINDOW_Q],
                .ldk = a->ld[FV_WINDOW_K],
                .ldv = a->ld[FV_WINDOW_V],
                .ldb = a->ld[FV_WINDOW_PARAM],
                .ldo = a->ld[FV_WINDOW_OUT]};
    memset(scratch + l.rank, 0, l.lanesp * sizeof *scratch);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        if (c->p[FV_WINDOW_PARAM])
            w.bias = (const float *)c->p[FV_WINDOW_PARAM] + h * l.keys * w.ldb;
        for (size_t r = 0; r < c->rows; r += l.keys) {
            const bool last = r + l.keys == c->rows;
            const size_t next = last ? 0 : r + l.keys, next_h = last ? h + 1 : h;
            w.q = (const float *)c->p[FV_WINDOW_Q] + r * w.ldq + h * l.d;
            w.k = (const float *)c->p[FV_WINDOW_K] + r * w.ldk + h * l.d;
            w.v = (const float *)c->p[FV_WINDOW_V] + r * w.ldv + h * l.dv;
            w.out = (float *)c->p[FV_WINDOW_OUT] + r * w.ldo + h * l.dv;
            w.next_q = (const float *)c->p[FV_WINDOW_Q] + next * w.ldq + next_h * l.d;
            w.next_k = (const float *)c->p[FV_WINDOW_K] + next * w.ldk + next_h * l.d;
            w.next_v = (const float *)c->p[FV_WINDOW_V] + next * w.ldv + next_h * l.dv;
            w.mixed = region && rank_regions(scratch + l.rank, (uint32_t *)c->scratch + l.seen,
                                             region + c->row0 + r, l.keys);
            attend(scratch, &l, &w, a->f[0]);
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out(p).floats * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_wsoftmax_f32) = {.scratch = scratch_bytes};
