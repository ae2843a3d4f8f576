/* foveated_grad_tmpl.c: FOVEATED_GRAD in vec.h's vector functions.
 *
 * Queries are spread across the lanes, as in softmax_grad_tmpl.c. Each block of queries sees
 * different keys, which are gathered into tiles. All scores and keys of a block are kept until the
 * block is done:
 *
 *   for each block of queries:          Qt, Gt: queries and dout by columns
 *     for each tile of its keys:        S = K Qt + log n, m = max S
 *     P = 2^(S - m), l = sum P
 *     for each tile of its keys:        P = P / l, dS = P (V Gt - delta)
 *                                       dV += P G, dK += dS Q, dQ += dSt K
 *
 * Gradients of cells are summed separately from those of tokens. At the end, each cell's gradient
 * is divided equally among its tokens, from the coarsest level down. */
#include "train/cpu/softmax_grad_tiles.h"

#include <math.h>

#include "base/num.h"
#include "ops/foveated.h"
#include "train/ref/training.h"

/* Sizes of a problem, and offsets of the parts of its scratch. dp and dvp are d and dv, rounded up
 * to whole register tiles. */
typedef struct layout {
    size_t d, dv, dp, dvp, cells;
    size_t qt, gt, q, g, max, inverse, delta, keys, values, ds, p, bias, dcell, floats;
} layout;

static layout lay_out(const fv_problem *problem)
{
    const fv_fovea f = fv_fovea_of(problem);
    layout l = {.d = problem->dim[FV_ATTN_D],
                .dv = problem->dim[FV_ATTN_DV],
                .cells = fv_fovea_first(&f, f.levels + 1)};
    /* The largest number of keys that a block can see: the number of tokens, in whole tiles. */
    const size_t most = fv_tile_round(problem->dim[FV_ATTN_KEYS], KEYS);
    l.dp = fv_tile_round(l.d, FV_TILE_COLS);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    l.gt = l.qt + QUERIES * l.d;
    l.q = l.gt + QUERIES * l.dv;
    l.g = l.q + QUERIES * l.dp;
    l.max = l.g + QUERIES * l.dvp;
    l.inverse = l.max + QUERIES;
    l.delta = l.inverse + QUERIES;
    l.keys = l.delta + QUERIES;
    l.values = l.keys + most * l.dp;
    l.ds = l.values + KEYS * l.dvp;
    l.p = l.ds + KEYS * QUERIES;
    l.bias = l.p + most * QUERIES;
    l.dcell = l.bias + l.cells;
    l.floats = l.dcell + l.cells * (l.d + l.dv);
    return l;
}

/* One head: pointers to the beginnings of its rows. */
typedef struct head {
    const float *row[FV_FOVEATED_GRAD_OUT];
    float *dq, *dk, *dv, *scratch;
    const uint32_t *ld;
    layout l;
    fv_fovea fovea;
    float scale;
} head;

static const float *row_of(const head *h, int operand, size_t row)
{
    return h->row[operand] + row * h->ld[operand];
}

static float *grad_of(const head *h, float *base, size_t row)
{
    return base + row * h->ld[FV_FOVEATED_GRAD_OUT];
}

static float *cell_grad_of(const head *h, size_t cell)
{
    return h->scratch + h->l.dcell + cell * (h->l.d + h->l.dv);
}

/* ---- keys ---- */

typedef struct tile {
    const float *k[KEYS], *v[KEYS];
    float *dk[KEYS], *dv[KEYS];
    float bias[KEYS]; /* log2 of the number of tokens that a key represents */
    size_t n;
} tile;

static void add_token(tile *t, const head *h, size_t row)
{
    t->k[t->n] = row_of(h, FV_FOVEATED_K, row);
    t->v[t->n] = row_of(h, FV_FOVEATED_V, row);
    t->dk[t->n] = grad_of(h, h->dk, row);
    t->dv[t->n] = grad_of(h, h->dv, row);
    t->bias[t->n++] = 0.f;
}

static void add_cell(tile *t, const head *h, size_t cell)
{
    t->k[t->n] = row_of(h, FV_FOVEATED_CELL_K, cell);
    t->v[t->n] = row_of(h, FV_FOVEATED_CELL_V, cell);
    t->dk[t->n] = cell_grad_of(h, cell);
    t->dv[t->n] = cell_grad_of(h, cell) + h->l.d;
    t->bias[t->n++] = h->scratch[h->l.bias + cell];
}

/* The keys that a block has not visited yet. */
typedef struct keys {
    fv_fovea_walk walk;
    fv_fovea_run run;
} keys;

/* Gathers pointers to the next keys without packing them. Returns false if there are no more. */
static bool next_tile(tile *t, const head *h, keys *left)
{
    fv_fovea_run *run = &left->run;
    for (t->n = 0; t->n < KEYS; run->count--) {
        if (run->count == 0)
            *run = fv_fovea_next(&left->walk);
        if (run->count == 0)
            break;
        if (run->level > 0)
            add_cell(t, h, run->row++);
        else
            add_token(t, h, run->row++);
    }
    return t->n > 0;
}

/* Packs the rows of a tile, padded with zero rows to whole register tiles. Returns the number of
 * rows with padding. */
static size_t pack(float *out, size_t widthp, const float *const *row, size_t n, size_t width)
{
    const size_t whole = fv_tile_round(n, FV_TILE_M);
    for (size_t j = 0; j < n; j++)
        fv_tile_pack(out + j * widthp, widthp, row[j], 0, 1, width);
    memset(out + n * widthp, 0, (whole - n) * widthp * sizeof *out);
    return whole;
}

/* ---- queries ---- */

typedef struct block {
    size_t row[QUERIES], n, lanes; /* lanes: n rounded up to whole register tiles */
    float *dq[QUERIES];
    keys keys;
} block;

static void add_query(block *b, const head *h, size_t row)
{
    b->row[b->n] = row;
    b->dq[b->n++] = grad_of(h, h->dq, row);
}

static void pack_queries(block *b, const head *h)
{
    const layout *l = &h->l;
    float *const s = h->scratch, *q = s + l->q, *g = s + l->g;
    b->lanes = fv_tile_round(b->n, FV_TILE_COLS);
    memset(q + b->n * l->dp, 0, (b->lanes - b->n) * l->dp * sizeof *q);
    memset(g + b->n * l->dvp, 0, (b->lanes - b->n) * l->dvp * sizeof *g);
    for (size_t r = 0; r < b->lanes; r++) {
        s[l->max + r] = -INFINITY;
        s[l->delta + r] = 0.f;
    }
    for (size_t r = 0; r < b->n; r++) {
        const float *out = row_of(h, FV_FOVEATED_GRAD_FORWARD, b->row[r]);
        fv_v whole = fv_set(0.f);
        fv_tile_pack(q + r * l->dp, l->dp, row_of(h, FV_FOVEATED_Q, b->row[r]), 0, 1, l->d);
        fv_tile_pack(g + r * l->dvp, l->dvp, row_of(h, FV_FOVEATED_GRAD_DOUT, b->row[r]), 0, 1,
                     l->dv);
        for (size_t i = 0; i < l->dv; i += FV_W)
            whole =
                fv_fma(fv_load(g + r * l->dvp + i), fv_load_n(out + i, fv_lanes(l->dv - i)), whole);
        s[l->delta + r] = fv_hsum(whole);
        memset(b->dq[r], 0, l->d * sizeof(float));
    }
    pack_lanes(s + l->qt, q, l->dp, b->lanes, l->d, h->scale * 1.44269504f);
    pack_lanes(s + l->gt, g, l->dvp, b->lanes, l->dv, 1.f);
}

/* ---- scores ---- */

/* Adds to the scores of n keys log2 of the number of tokens that each key represents, and updates
 * the maximum of each query. */
FV_FN void add_bias(float *s, float *max, const float *bias, size_t n, size_t lanes)
{
    for (size_t i = 0; i < lanes; i += FV_W) {
        fv_v top = fv_load(max + i);
        for (size_t j = 0; j < n; j++) {
            const fv_v x = fv_add(fv_load(s + j * QUERIES + i), fv_set(bias[j]));
            fv_store(s + j * QUERIES + i, x);
            top = fv_max(top, x);
        }
        fv_store(max + i, top);
    }
}

/* Converts the scores of n keys to weights, in place. Sets `inverse` to 1 / their sum. */
FV_FN void exponentiate(float *s, const float *max, float *inverse, size_t n, size_t lanes)
{
    for (size_t i = 0; i < lanes; i += FV_W) {
        const fv_v top = fv_load(max + i);
        fv_v sum = fv_set(0.f);
        for (size_t j = 0; j < n; j++) {
            const fv_v x = fv_exp2_neg(fv_sub(fv_load(s + j * QUERIES + i), top));
            fv_store(s + j * QUERIES + i, x);
            sum = fv_add(sum, x);
        }
        fv_store(inverse + i, fv_div(fv_set(1.f), sum));
    }
}

/* Divides the weights of n keys by their sum, and converts dp to ds, in place. */
FV_FN void score_gradients(float *p, float *ds, const float *inverse, const float *delta, size_t n,
                           size_t lanes, float scale)
{
    for (size_t i = 0; i < lanes; i += FV_W) {
        const fv_v share = fv_load(inverse + i), mean = fv_load(delta + i), factor = fv_set(scale);
        for (size_t j = 0; j < n; j++) {
            float *at = p + j * QUERIES + i, *dat = ds + j * QUERIES + i;
            const fv_v x = fv_mul(fv_load(at), share);
            fv_store(at, x);
            fv_store(dat, fv_mul(fv_mul(x, factor), fv_sub(fv_load(dat), mean)));
        }
    }
}

/* Adds to row[i] the sum over k < depth of w[i wm + k wk] x[k]. */
FV_FN void add_to_rows(float *const *row, size_t rows, size_t width, const float *w, size_t wm,
                       size_t wk, const float *x, size_t ldx, size_t depth)
{
    for (size_t i = 0; i < rows; i += FV_TILE_M) {
        for (size_t c = 0; c < width; c += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, w + i * wm, wm, wk, x + c, ldx, depth);
            FV_UNROLL
            for (int v = 0; v < FV_TILE_N; v++) {
                const size_t col = c + (size_t)v * FV_W;
                const int n = col < width ? fv_lanes(width - col) : 0;
                FV_UNROLL
                for (size_t r = 0; r < FV_TILE_M; r++) {
                    if (i + r < rows && n > 0) {
                        float *at = row[i + r] + col;
                        fv_store_n(at, fv_add(fv_load_n(at, n), acc[r][v]), n);
                    }
                }
            }
        }
    }
}

static void differentiate(const head *h, block *b)
{
    const layout *l = &h->l;
    float *const s = h->scratch, *p = s + l->p, *ds = s + l->ds, *k = s + l->keys;
    keys again = b->keys;
    tile t;
    size_t n = 0;
    pack_queries(b, h);
    for (; next_tile(&t, h, &b->keys); n += t.n) {
        const size_t whole = pack(k + n * l->dp, l->dp, t.k, t.n, l->d);
        scores(p + n * QUERIES, k + n * l->dp, l->dp, s + l->qt, l->d, whole, b->lanes);
        add_bias(p + n * QUERIES, s + l->max, t.bias, t.n, b->lanes);
    }
    exponentiate(p, s + l->max, s + l->inverse, n, b->lanes);
    for (; next_tile(&t, h, &again); p += t.n * QUERIES, k += t.n * l->dp) {
        const size_t whole = pack(s + l->values, l->dvp, t.v, t.n, l->dv);
        scores(ds, s + l->values, l->dvp, s + l->gt, l->dv, whole, b->lanes);
        score_gradients(p, ds, s + l->inverse, s + l->delta, t.n, b->lanes, h->scale);
        add_to_rows(t.dv, t.n, l->dv, p, QUERIES, 1, s + l->g, l->dvp, b->n);
        add_to_rows(t.dk, t.n, l->d, ds, QUERIES, 1, s + l->q, l->dp, b->n);
        add_to_rows(b->dq, b->n, l->d, ds, 1, QUERIES, k, l->dp, t.n);
    }
}

static void differentiate_prefix(const head *h)
{
    for (size_t row = 0; row < h->fovea.prefix;) {
        block b = {.n = 0};
        while (b.n < QUERIES && row < h->fovea.prefix)
            add_query(&b, h, row++);
        fv_fovea_begin_prefix(&b.keys.walk, &h->fovea);
        differentiate(h, &b);
    }
}

static void differentiate_at(const head *h, uint32_t top, uint32_t left)
{
    const fv_fovea *f = &h->fovea;
    const uint32_t bottom = fv_min_u32(top + FV_FOVEA_BLOCK, f->height);
    const uint32_t right = fv_min_u32(left + FV_FOVEA_BLOCK, f->width);
    block b = {.n = 0};
    for (uint32_t y = top; y < bottom; y++)
        for (uint32_t x = left; x < right; x++)
            add_query(&b, h, f->prefix + (size_t)y * f->width + x);
    fv_fovea_begin(&b.keys.walk, f, top, left);
    differentiate(h, &b);
}

/* ---- cells ---- */

FV_FN void add_row(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(out + i, fv_add(fv_load_n(out + i, lanes), fv_load_n(x + i, lanes)), lanes);
    }
}

/* Divides the gradient of the cell that contains token (y, x) by its number of tokens, and adds the
 * share of its parent cell. The result is the gradient that each token gets. */
static void share_cell(const head *h, uint32_t level, uint32_t y, uint32_t x)
{
    const fv_fovea *f = &h->fovea;
    const uint32_t cell = fv_fovea_at(f, level, y, x);
    const size_t n = h->l.d + h->l.dv;
    const fv_v share = fv_set(1.f / (float)fv_fovea_tokens(f, cell));
    float *out = cell_grad_of(h, cell);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(out + i, fv_mul(fv_load_n(out + i, lanes), share), lanes);
    }
    if (level < f->levels)
        add_row(out, cell_grad_of(h, fv_fovea_at(f, level + 1, y, x)), n);
}

static void share_cells(const head *h)
{
    const fv_fovea *f = &h->fovea;
    for (uint32_t level = f->levels; level > 0; level--)
        for (uint32_t y = 0; y < f->height; y += 1u << level)
            for (uint32_t x = 0; x < f->width; x += 1u << level)
                share_cell(h, level, y, x);
    for (uint32_t y = 0; y < f->height; y++)
        for (uint32_t x = 0; x < f->width; x++) {
            const size_t row = f->prefix + (size_t)y * f->width + x;
            const float *from = cell_grad_of(h, fv_fovea_at(f, 1, y, x));
            add_row(grad_of(h, h->dk, row), from, h->l.d);
            add_row(grad_of(h, h->dv, row), from + h->l.d, h->l.dv);
        }
}

/* ---- the kernel ---- */

static head head_of(const fv_args *a, const fv_call *c, size_t number)
{
    float *out = c->p[FV_FOVEATED_GRAD_OUT];
    head h = {.ld = a->ld,
              .scratch = c->scratch,
              .l = lay_out(&a->prob),
              .fovea = fv_fovea_of(&a->prob),
              .scale = a->f[0]};
    for (int i = 0; i < FV_FOVEATED_GRAD_OUT; i++) {
        const bool values =
            i == FV_FOVEATED_V || i == FV_FOVEATED_CELL_V || i >= FV_FOVEATED_GRAD_FORWARD;
        h.row[i] = (const float *)c->p[i] + number * (values ? h.l.dv : h.l.d);
    }
    h.dq = out + number * h.l.d;
    h.dk = out + (a->prob.heads + number) * h.l.d;
    h.dv = out + 2 * a->prob.heads * h.l.d + number * h.l.dv;
    return h;
}

/* Clears all gradients, and computes log2 of the number of tokens of each cell. */
static void begin(const head *h, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        memset(grad_of(h, h->dk, r), 0, h->l.d * sizeof(float));
        memset(grad_of(h, h->dv, r), 0, h->l.dv * sizeof(float));
    }
    memset(cell_grad_of(h, 0), 0, h->l.cells * (h->l.d + h->l.dv) * sizeof(float));
    for (uint32_t i = 0; i < h->l.cells; i++)
        h->scratch[h->l.bias + i] = log2f((float)fv_fovea_tokens(&h->fovea, i));
}

void FV_NAME(fv_k_foveated_grad_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
        const head h = head_of(a, c, i);
        begin(&h, c->rows);
        differentiate_prefix(&h);
        for (uint32_t y = 0; y < h.fovea.height; y += FV_FOVEA_BLOCK)
            for (uint32_t x = 0; x < h.fovea.width; x += FV_FOVEA_BLOCK)
                differentiate_at(&h, y, x);
        share_cells(&h);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out(p).floats * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_foveated_grad_f32) = {.rate = FV_W * 6e9,
                                                         .scratch = scratch_bytes};
