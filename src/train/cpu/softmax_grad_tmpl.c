/* softmax_grad_tmpl.c: SOFTMAX_GRAD in vec.h's vector functions.
 *
 * As in softmax_tmpl.c, queries are spread across the lanes, so that nothing is summed across lanes
 * and no product needs a transposed key. Queries and dout are transposed and packed once per head:
 *
 *   Qt, Gt: queries and dout by columns;  m, l: maximum and sum of each query, from a first pass
 *   for each tile of keys:                        K, V packed; dK = dV = 0
 *     for each block of queries:                  P = 2^(K Qt - m) / l, dS = P (V Gt - delta)
 *                                                 dV += P G, dK += dS Q, dQ += dSt K */
#include "train/cpu/softmax_grad_tiles.h"
#include "train/ref/training.h"

/* Sizes of a problem, and offsets of the parts of its scratch. dp and dvp are d and dv, rounded up
 * to whole register tiles. */
typedef struct layout {
    size_t d, dv, dp, dvp;
    size_t rows; /* number of rows, rounded up to whole blocks */
    size_t qt, gt, q, g, max, inverse, delta, keys, values, dk, dv_at, p, ds, floats;
} layout;

static layout lay_out(const fv_problem *problem, size_t rows)
{
    layout l = {.d = problem->dim[FV_ATTN_D], .dv = problem->dim[FV_ATTN_DV]};
    l.dp = fv_tile_round(l.d, FV_TILE_COLS);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    l.rows = fv_tile_round(rows, QUERIES);
    l.gt = l.qt + l.rows * l.d;
    l.q = l.gt + l.rows * l.dv;
    l.g = l.q + l.rows * l.dp;
    l.max = l.g + l.rows * l.dvp;
    l.inverse = l.max + l.rows;
    l.delta = l.inverse + l.rows;
    l.keys = l.delta + l.rows;
    l.values = l.keys + KEYS * l.dp;
    l.dk = l.values + KEYS * l.dvp;
    l.dv_at = l.dk + KEYS * l.dp;
    l.p = l.dv_at + KEYS * l.dvp;
    l.ds = l.p + KEYS * QUERIES;
    l.floats = l.ds + KEYS * QUERIES;
    return l;
}

/* One head. */
typedef struct head {
    const float *q, *k, *v, *forward, *dout;
    float *dq, *dk, *dv;
    const uint32_t *ld;
    size_t rows;
    float scale;
} head;

static void pack_rows(float *out, size_t widthp, const float *x, size_t ld, size_t rows, size_t all,
                      size_t width)
{
    fv_tile_pack(out, widthp, x, ld, rows, width);
    memset(out + rows * widthp, 0, (all - rows) * widthp * sizeof *out);
}

/* Updates the maximum and the sum of the block's queries with n more keys. */
FV_FN void update_statistics(float *max, float *sum, const float *s, size_t n)
{
    for (size_t i = 0; i < QUERIES; i += FV_W) {
        const fv_v was = fv_load(max + i);
        fv_v top = was, add = fv_set(0.f);
        for (size_t j = 0; j < n; j++)
            top = fv_max(top, fv_load(s + j * QUERIES + i));
        for (size_t j = 0; j < n; j++)
            add = fv_add(add, fv_exp2_neg(fv_sub(fv_load(s + j * QUERIES + i), top)));
        fv_store(max + i, top);
        fv_store(sum + i, fv_fma(fv_load(sum + i), fv_exp2_neg(fv_sub(was, top)), add));
    }
}

/* Converts scores to p, and dp to ds, in place. Both are 0 for keys from n on. */
FV_FN void score_gradients(float *p, float *ds, const float *max, const float *inverse,
                           const float *delta, size_t n, size_t whole, float scale)
{
    const fv_v factor = fv_set(scale), zero = fv_set(0.f);
    for (size_t i = 0; i < QUERIES; i += FV_W) {
        const fv_v top = fv_load(max + i), share = fv_load(inverse + i), mean = fv_load(delta + i);
        for (size_t j = 0; j < n; j++) {
            float *at = p + j * QUERIES + i, *dat = ds + j * QUERIES + i;
            const fv_v x = fv_mul(fv_exp2_neg(fv_sub(fv_load(at), top)), share);
            fv_store(at, x);
            fv_store(dat, fv_mul(fv_mul(x, factor), fv_sub(fv_load(dat), mean)));
        }
        for (size_t j = n; j < whole; j++) {
            fv_store(p + j * QUERIES + i, zero);
            fv_store(ds + j * QUERIES + i, zero);
        }
    }
}

/* Adds to sum[j] the sum over the block's queries of w[j][i] x[i]. */
FV_FN void add_to_keys(float *sum, size_t widthp, const float *w, const float *x, size_t n)
{
    for (size_t c = 0; c < widthp; c += FV_TILE_COLS) {
        for (size_t j = 0; j < n; j += FV_TILE_M) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, w + j * QUERIES, QUERIES, 1, x + c, widthp, QUERIES);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    float *at = sum + (j + (size_t)r) * widthp + c + v * FV_W;
                    fv_store(at, fv_add(fv_load(at), acc[r][v]));
                }
            }
        }
    }
}

/* Adds to dq[i] the sum over the tile's n keys of w[j][i] k[j]. With `first`, overwrites dq. */
FV_FN void add_to_queries(const layout *l, const head *h, const float *w, const float *k, size_t r0,
                          size_t n, bool first)
{
    const size_t ld = h->ld[FV_SOFTMAX_GRAD_OUT];
    const size_t rows = h->rows - r0 < QUERIES ? h->rows - r0 : QUERIES;
    for (size_t i = 0; i < rows; i += FV_TILE_M) {
        for (size_t c = 0; c < l->d; c += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, w + i, 1, QUERIES, k + c, l->dp, n);
            FV_UNROLL
            for (size_t r = 0; r < FV_TILE_M; r++) {
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    const size_t col = c + (size_t)v * FV_W;
                    if (i + r < rows && col < l->d) {
                        float *at = h->dq + (r0 + i + r) * ld + col;
                        const int lanes = fv_lanes(l->d - col);
                        fv_store_n(at, first ? acc[r][v] : fv_add(fv_load_n(at, lanes), acc[r][v]),
                                   lanes);
                    }
                }
            }
        }
    }
}

static void write_rows(float *out, size_t ld, const float *x, size_t widthp, size_t n, size_t width)
{
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < width; i += FV_W) {
            const int lanes = fv_lanes(width - i);
            fv_store_n(out + j * ld + i, fv_load_n(x + j * widthp + i, lanes), lanes);
        }
    }
}

/* Packs the tile of keys from key j on, and returns its number of keys, rounded up to whole
 * register tiles. */
static size_t pack_keys(float *scratch, const layout *l, const head *h, size_t j, size_t n,
                        bool values)
{
    const size_t whole = fv_tile_round(n, FV_TILE_M);
    pack_rows(scratch + l->keys, l->dp, h->k + j * h->ld[FV_SOFTMAX_GRAD_K],
              h->ld[FV_SOFTMAX_GRAD_K], n, whole, l->d);
    if (values)
        pack_rows(scratch + l->values, l->dvp, h->v + j * h->ld[FV_SOFTMAX_GRAD_V],
                  h->ld[FV_SOFTMAX_GRAD_V], n, whole, l->dv);
    return whole;
}

/* Packs the queries, and computes their maxima, their sums, and dout.out. */
static void prepare(float *scratch, const layout *l, const head *h)
{
    float *max = scratch + l->max, *sum = scratch + l->inverse;
    pack_rows(scratch + l->q, l->dp, h->q, h->ld[FV_SOFTMAX_GRAD_Q], h->rows, l->rows, l->d);
    pack_rows(scratch + l->g, l->dvp, h->dout, h->ld[FV_SOFTMAX_GRAD_DOUT], h->rows, l->rows,
              l->dv);
    pack_lanes(scratch + l->qt, scratch + l->q, l->dp, l->rows, l->d, h->scale * 1.44269504f);
    pack_lanes(scratch + l->gt, scratch + l->g, l->dvp, l->rows, l->dv, 1.f);
    for (size_t r = 0; r < l->rows; r++) {
        fv_v whole = fv_set(0.f);
        for (size_t i = 0; r < h->rows && i < l->dv; i += FV_W) {
            const int n = fv_lanes(l->dv - i);
            const float *out = h->forward + r * h->ld[FV_SOFTMAX_GRAD_FORWARD] + i;
            whole = fv_fma(fv_load(scratch + l->g + r * l->dvp + i), fv_load_n(out, n), whole);
        }
        scratch[l->delta + r] = fv_hsum(whole);
        max[r] = -INFINITY;
        sum[r] = 0.f;
    }
    for (size_t j = 0; j < h->rows; j += KEYS) {
        const size_t n = h->rows - j < KEYS ? h->rows - j : KEYS;
        const size_t whole = pack_keys(scratch, l, h, j, n, false);
        for (size_t r = 0; r < l->rows; r += QUERIES) {
            scores(scratch + l->p, scratch + l->keys, l->dp, scratch + l->qt + r * l->d, l->d,
                   whole, QUERIES);
            update_statistics(max + r, sum + r, scratch + l->p, n);
        }
    }
    for (size_t r = 0; r < l->rows; r += FV_W)
        fv_store(sum + r, fv_div(fv_set(1.f), fv_load(sum + r)));
}

static void differentiate(float *scratch, const layout *l, const head *h)
{
    float *p = scratch + l->p, *ds = scratch + l->ds;
    for (size_t j = 0; j < h->rows; j += KEYS) {
        const size_t n = h->rows - j < KEYS ? h->rows - j : KEYS;
        const size_t whole = pack_keys(scratch, l, h, j, n, true);
        memset(scratch + l->dk, 0, KEYS * (l->dp + l->dvp) * sizeof *scratch);
        for (size_t r = 0; r < l->rows; r += QUERIES) {
            scores(p, scratch + l->keys, l->dp, scratch + l->qt + r * l->d, l->d, whole, QUERIES);
            scores(ds, scratch + l->values, l->dvp, scratch + l->gt + r * l->dv, l->dv, whole,
                   QUERIES);
            score_gradients(p, ds, scratch + l->max + r, scratch + l->inverse + r,
                            scratch + l->delta + r, n, whole, h->scale);
            add_to_keys(scratch + l->dv_at, l->dvp, p, scratch + l->g + r * l->dvp, whole);
            add_to_keys(scratch + l->dk, l->dp, ds, scratch + l->q + r * l->dp, whole);
            add_to_queries(l, h, ds, scratch + l->keys, r, n, j == 0);
        }
        const size_t ld = h->ld[FV_SOFTMAX_GRAD_OUT];
        write_rows(h->dk + j * ld, ld, scratch + l->dk, l->dp, n, l->d);
        write_rows(h->dv + j * ld, ld, scratch + l->dv_at, l->dvp, n, l->dv);
    }
}

void FV_NAME(fv_k_softmax_grad_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, c->rows);
    float *out = c->p[FV_SOFTMAX_GRAD_OUT];
    for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
        const head h = {.q = (const float *)c->p[FV_SOFTMAX_GRAD_Q] + i * l.d,
                        .k = (const float *)c->p[FV_SOFTMAX_GRAD_K] + i * l.d,
                        .v = (const float *)c->p[FV_SOFTMAX_GRAD_V] + i * l.dv,
                        .forward = (const float *)c->p[FV_SOFTMAX_GRAD_FORWARD] + i * l.dv,
                        .dout = (const float *)c->p[FV_SOFTMAX_GRAD_DOUT] + i * l.dv,
                        .dq = out + i * l.d,
                        .dk = out + (a->prob.heads + i) * l.d,
                        .dv = out + 2 * a->prob.heads * l.d + i * l.dv,
                        .ld = a->ld,
                        .rows = c->rows,
                        .scale = a->f[0]};
        prepare(c->scratch, &l, &h);
        differentiate(c->scratch, &l, &h);
    }
}

static bool applies(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_CAUSAL) && p->dim[FV_DIM_ROWS] == p->dim[FV_ATTN_KEYS];
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows).floats * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_softmax_grad_f32) = {
    .applies = applies, .rate = FV_W * 6e9, .scratch = scratch_bytes};
