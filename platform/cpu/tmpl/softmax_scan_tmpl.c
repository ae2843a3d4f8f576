/* softmax_scan_tmpl.c: computes SOFTMAX_SCAN with vec.h's vector functions, in two forms. Many rows
 * are processed as in SOFTMAX: panels of queries attend to packed tiles of keys. For a few rows,
 * reading the cache takes most of the time, so its rows are read in place and only once: each tile
 * of keys serves all queries of its kv head while it is in the core's cache. */
#define FV_OPERANDS_EXACT
#define FV_TILE_N FV_TILE_WIDE /* vectors of queries per tile */
#include "ops/contracts/sequence.h"
#include "ops/ref/ref_softmax_scan.h"
#include "platform/cpu/tmpl/softmax_keys.h"

#include <float.h>

enum {
    PANEL = 256, /* queries whose Qt and Ot stay in L2 */
    FEW = 6,     /* most rows for which packing keys would take longer than it saves */
    RUN = 64,    /* keys in a tile of the form for few rows */
    VECTORS = 4  /* vectors of the values' columns that one pass computes */
};

/* Consecutive tokens of a kv head, from the cache or from the call itself. */
typedef struct tokens {
    const float *k, *v; /* the first token's key and value */
    size_t ld_k, ld_v;
    size_t first, end; /* positions of the first token and of the end */
} tokens;

static tokens of_cache(const fv_args *a, const fv_cache *s, size_t kv)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t capacity = a->prob.dim[FV_ATTN_KEYS];
    return (tokens){s->k + kv * capacity * d, s->v + kv * capacity * dv, d, dv, 0, s->held};
}

static tokens of_call(const fv_args *a, const fv_call *c, const fv_cache *s, size_t kv)
{
    return (tokens){(const float *)c->p[FV_CACHE_K] + kv * a->prob.dim[FV_ATTN_D],
                    (const float *)c->p[FV_CACHE_V] + kv * a->prob.dim[FV_ATTN_DV],
                    a->ld[FV_CACHE_K],
                    a->ld[FV_CACHE_V],
                    s->position,
                    s->position + c->rows};
}

static const float *query_of(const fv_args *a, const fv_call *c, size_t row, size_t number)
{
    return (const float *)c->p[FV_CACHE_Q] + row * a->ld[FV_CACHE_Q] +
           number * a->prob.dim[FV_ATTN_D];
}

static float *out_of(const fv_args *a, const fv_call *c, size_t row, size_t number)
{
    return (float *)c->p[FV_CACHE_OUT] + row * a->ld[FV_CACHE_OUT] +
           number * a->prob.dim[FV_ATTN_DV];
}

/* ---- many rows ---- */

/* Masks keys before the last `window` that each query sees; query i is at position + i. */
static void mask_past(float *scores, size_t n, size_t key0, size_t position, size_t window)
{
    for (size_t j = 0; j < n; j++) {
        const size_t end = key0 + j + window; /* the first position that no longer sees the key */
        for (size_t i = end > position ? end - position : 0; i < FV_TILE_COLS; i++)
            scores[j * FV_TILE_COLS + i] = -INFINITY;
    }
}

/* Attends a block of queries, the first at `position`, to a packed tile of n keys from key0 on. */
FV_FN void attend_masked(const layout *l, float *scratch, size_t r, size_t key0, size_t n,
                         size_t position, size_t window, int vecs, tile_prefetch *next)
{
    float *s = scratch + l->scores;
    const float *keys = scratch + l->keys, *values = scratch + l->values;
    fv_v fade[FV_TILE_N];
    score(s, keys, scratch + l->qt + r * l->dp, l->dp, n, vecs, 1.f, NULL, &next->keys);
    mask_future(s, n, key0, position);
    if (window)
        mask_past(s, n, key0, position, window);
    exponentiate(fade, s, scratch + l->max + r, scratch + l->sum + r, n, vecs);
    accumulate_values(scratch + l->ot + r * l->dvp, fade, values, l, s, n, vecs, &next->values);
}

/* Attends the queries of a panel, `rows` from `position` on, to the tokens of `t` that they see. */
static void attend_tokens(const layout *l, float *scratch, const fv_cache *s, const tokens *t,
                          size_t position, size_t rows)
{
    const head h = {.k = (const char *)t->k,
                    .v = (const char *)t->v,
                    .type_k = FV_F32,
                    .type_v = FV_F32,
                    .ld_k = t->ld_k,
                    .ld_v = t->ld_v};
    const size_t first = fv_cache_first(s, position);
    const size_t end = position + rows < t->end ? position + rows : t->end;
    for (size_t j = first > t->first ? first : t->first; j < end; j += l->tile) {
        const size_t n = end - j < l->tile ? end - j : l->tile;
        pack_tile(scratch, l, &h, j - t->first, n);
        tile_prefetch next = prefetch_of(&h, l, j - t->first + n, end - t->first, rows);
        for (size_t r = 0; r < rows; r += FV_TILE_COLS) {
            const size_t at = position + r,
                         last = rows - r < FV_TILE_COLS ? rows : r + FV_TILE_COLS;
            if (j >= position + last || j + n <= fv_cache_first(s, at))
                continue; /* all keys are masked */
            if (FV_TILE_N > 2 && rows - r > 2 * FV_W)
                attend_masked(l, scratch, r, j, n, at, s->window, FV_TILE_N, &next);
            else if (rows - r > FV_W)
                attend_masked(l, scratch, r, j, n, at, s->window, 2, &next);
            else
                attend_masked(l, scratch, r, j, n, at, s->window, 1, &next);
        }
    }
}

static void attend_panel(const fv_args *a, const fv_call *c, const layout *l, const fv_cache *s,
                         size_t first, size_t rows, size_t number)
{
    float *const scratch = c->scratch;
    const tokens cached = of_cache(a, s, number / s->group),
                 own = of_call(a, c, s, number / s->group);
    begin_queries(scratch, l);
    for (size_t r = 0; r < l->queries; r++) /* finite, because all keys of a tile may be masked */
        scratch[l->max + r] = -FLT_MAX;
    pack_queries(scratch, l, query_of(a, c, first, number), FV_F32, a->ld[FV_CACHE_Q], 0, rows,
                 a->f[0] * LOG2_E);
    attend_tokens(l, scratch, s, &cached, s->position + first, rows);
    attend_tokens(l, scratch, s, &own, s->position + first, rows);
    write_out(out_of(a, c, first, number), FV_F32, a->ld[FV_CACHE_OUT], l, scratch, 0, rows);
}

/* ---- few rows ---- */

/* The scratch of the form for few rows: for each query its packed values and its sums. */
typedef struct few {
    size_t d, dv;   /* widths of packed queries and of accumulators, multiples of the vector */
    size_t query;   /* floats per query: [d] Q, [dv] O, the largest score, the sum of weights */
    size_t queries; /* queries per kv head */
    size_t scores, floats;
} few;

static few lay_out_few(const fv_problem *p, size_t rows)
{
    few f = {.d = fv_tile_round(p->dim[FV_ATTN_D], FV_W),
             .dv = fv_tile_round(p->dim[FV_ATTN_DV], FV_W)};
    f.query = fv_tile_round(f.d + f.dv + 2, FV_W);
    f.queries = rows * (p->heads / p->dim[FV_CACHE_KV_HEADS]);
    f.scores = f.queries * f.query;
    f.floats = f.scores + RUN;
    return f;
}

/* Multiplies a packed query by `keys` rows. */
FV_FN void score_rows(float *out, const float *q, const float *k, size_t ld, size_t d, int keys)
{
    fv_v sum[VECTORS];
    FV_UNROLL
    for (int j = 0; j < keys; j++)
        sum[j] = fv_set(0.f);
    size_t i = 0;
    for (; i + FV_W <= d; i += FV_W) {
        FV_UNROLL
        for (int j = 0; j < keys; j++)
            sum[j] = fv_fma(fv_load(q + i), fv_load(k + (size_t)j * ld + i), sum[j]);
    }
    if (i < d) {
        FV_UNROLL
        for (int j = 0; j < keys; j++)
            sum[j] =
                fv_fma(fv_load(q + i), fv_load_n(k + (size_t)j * ld + i, (int)(d - i)), sum[j]);
    }
    FV_UNROLL
    for (int j = 0; j < keys; j++)
        out[j] = fv_hsum(sum[j]);
}

/* Converts n scores to weights, in place; returns the factor for all previous sums. */
static float weigh_rows(float *s, size_t n, float *top, float *sum)
{
    fv_v high = fv_set(*top), add = fv_set(0.f);
    for (size_t j = n; j < fv_tile_round(n, FV_W); j++)
        s[j] = -INFINITY;
    for (size_t j = 0; j < n; j += FV_W)
        high = fv_max(high, fv_load(s + j));
    const float max = fv_hmax(high);
    for (size_t j = 0; j < n; j += FV_W) {
        const fv_v p = fv_exp2_neg(fv_sub(fv_load(s + j), fv_set(max)));
        fv_store(s + j, p);
        add = fv_add(add, p);
    }
    float fade[FV_W];
    fv_store(fade, fv_exp2_neg(fv_set(*top - max)));
    *top = max;
    *sum = *sum * fade[0] + fv_hsum(add);
    return fade[0];
}

/* o = fade o + p V for `vectors` vectors of columns, the last of `lanes` lanes. Even and odd keys
 * are summed separately. */
FV_FN void add_columns(float *o, const float *p, const float *v, size_t ld, size_t n, float fade,
                       int vectors, int lanes)
{
    fv_v even[VECTORS], odd[VECTORS];
    size_t j = 0;
    FV_UNROLL
    for (int i = 0; i < vectors; i++) {
        even[i] = fv_mul(fv_load(o + i * FV_W), fv_set(fade));
        odd[i] = fv_set(0.f);
    }
    for (; j + 2 <= n; j += 2, v += 2 * ld) {
        FV_UNROLL
        for (int i = 0; i < vectors; i++) {
            even[i] = fv_fma(fv_set(p[j]), fv_load_n(v + i * FV_W, lanes), even[i]);
            odd[i] = fv_fma(fv_set(p[j + 1]), fv_load_n(v + ld + i * FV_W, lanes), odd[i]);
        }
    }
    FV_UNROLL
    for (int i = 0; i < vectors; i++) {
        if (j < n)
            even[i] = fv_fma(fv_set(p[j]), fv_load_n(v + i * FV_W, lanes), even[i]);
        fv_store(o + i * FV_W, fv_add(even[i], odd[i]));
    }
}

/* Attends one packed query to n tokens, from row `row` of `t` on. */
static void attend_rows(const few *f, float *query, float *scores, const fv_problem *p,
                        const tokens *t, size_t row, size_t n)
{
    const size_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const float *k = t->k + row * t->ld_k, *v = t->v + row * t->ld_v;
    float *o = query + f->d;
    size_t j = 0;
    for (; j + VECTORS <= n; j += VECTORS)
        score_rows(scores + j, query, k + j * t->ld_k, t->ld_k, d, VECTORS);
    for (; j < n; j++)
        score_rows(scores + j, query, k + j * t->ld_k, t->ld_k, d, 1);
    const float fade = weigh_rows(scores, n, o + f->dv, o + f->dv + 1);
    size_t i = 0;
    for (; i + VECTORS * FV_W <= dv; i += VECTORS * FV_W)
        add_columns(o + i, scores, v + i, t->ld_v, n, fade, VECTORS, FV_W);
    for (; i < dv; i += FV_W)
        add_columns(o + i, scores, v + i, t->ld_v, n, fade, 1, fv_lanes(dv - i));
}

static void begin_query(const few *f, float *query, const float *q, size_t d, float scale)
{
    memset(query, 0, f->query * sizeof *query);
    for (size_t i = 0; i < d; i++)
        query[i] = q[i] * scale;
    query[f->d + f->dv] = -FLT_MAX;
}

static void end_query(const few *f, const float *query, float *out, size_t dv)
{
    const float *o = query + f->d;
    const fv_v part = fv_set(1.f / o[f->dv + 1]);
    for (size_t i = 0; i < dv; i += FV_W)
        fv_store_n(out + i, fv_mul(fv_load(o + i), part), fv_lanes(dv - i));
}

/* Computes heads [from, to), which share a kv head. Query x belongs to row x / (number of heads).
 */
static void attend_few(const fv_args *a, const fv_call *c, const fv_cache *s, size_t from,
                       size_t to)
{
    const size_t kv = from / s->group, heads = to - from, queries = c->rows * heads;
    const few f = lay_out_few(&a->prob, c->rows);
    const tokens both[] = {of_cache(a, s, kv), of_call(a, c, s, kv)};
    float *m = c->scratch;
    for (size_t x = 0; x < queries; x++)
        begin_query(&f, m + x * f.query, query_of(a, c, x / heads, from + x % heads),
                    a->prob.dim[FV_ATTN_D], a->f[0] * LOG2_E);
    for (int i = 0; i < 2; i++) {
        const tokens *t = &both[i];
        const size_t first = fv_cache_first(s, s->position);
        for (size_t j = first > t->first ? first : t->first; j < t->end; j += RUN) {
            for (size_t x = 0; x < queries; x++) {
                const size_t at = s->position + x / heads, low = fv_cache_first(s, at);
                const size_t begin = low > j ? low : j, seen = at + 1 < t->end ? at + 1 : t->end;
                const size_t end = seen < j + RUN ? seen : j + RUN;
                if (begin < end)
                    attend_rows(&f, m + x * f.query, m + f.scores, &a->prob, t, begin - t->first,
                                end - begin);
            }
        }
    }
    for (size_t x = 0; x < queries; x++)
        end_query(&f, m + x * f.query, out_of(a, c, x / heads, from + x % heads),
                  a->prob.dim[FV_ATTN_DV]);
}

/* ---- a call ---- */

void FV_NAME(fv_k_softmax_scan_f32)(const fv_args *a, const fv_call *c)
{
    const fv_cache s = fv_cache_of(a, c);
    const size_t end = (size_t)c->col0 + c->cols;
    for (size_t h = c->col0; h < end; h++)
        if (h % s.group == 0)
            fv_cache_remember(a, c, &s, h / s.group);
    if (c->rows <= FEW) {
        for (size_t h = c->col0, next; h < end; h = next) {
            next = (h / s.group + 1) * s.group < end ? (h / s.group + 1) * s.group : end;
            attend_few(a, c, &s, h, next);
        }
        return;
    }
    const layout l = lay_out(&a->prob, &a->knobs, c->rows < PANEL ? c->rows : PANEL, 0);
    for (size_t first = 0; first < c->rows; first += PANEL) {
        const size_t rows = c->rows - first < PANEL ? c->rows - first : PANEL;
        for (size_t h = c->col0; h < end; h++)
            attend_panel(a, c, &l, &s, first, rows, h);
    }
}

static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 && p->out == FV_F32;
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const size_t many = lay_out(p, k, rows < PANEL ? rows : PANEL, 0).floats;
    const size_t some = lay_out_few(p, rows < FEW ? rows : FEW).floats;
    return (many > some ? many : some) * sizeof(float);
}

static const fv_knob knobs[] = {{"keys", {64, 32, 128, 256}, 4}, {0}};

const fv_kernel_hooks FV_NAME(fv_h_softmax_scan_f32) = {
    .applies = applies, .rate = FV_W * 6e9, .scratch = scratch_bytes, .knobs = knobs};
