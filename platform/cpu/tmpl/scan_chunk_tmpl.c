/* scan_chunk_tmpl.c: computes SCAN chunk by chunk, as matrix products instead of token by token,
 * with vec.h's vector functions. S is the state before the chunk:
 *
 *     A_ij = q_i.k_j, j <= i, each product times the decays of the tokens j+1 .. i
 *     Q_i  = q_i times the decays of 0 .. i,   K_j = k_j times those after j
 *     delta rule:  u_i = beta_i (v_i - Q(k)_i S - sum_{j<i} B_ij u_j),  B of keys as A of queries
 *                  by forward substitution, in place of V; (I + B)^-1 is never formed
 *     O = Q S + A V;   S = (decays of the chunk) S + K^T V
 *
 * Decays are running products of e^a, never quotients, so that even strong decays do not overflow.
 * With scalar decays A is a matrix product times a matrix of scalars. With a decay per channel A is
 * no such product, so its elements are computed one by one, and chunks have at most 16 tokens. In
 * longer chunks, products between blocks of 16 tokens would cost more than passing them through the
 * state.
 *
 * With FV_FLAG_CENTRED, scan_centre() first converts keys, values and decays, token by token, to
 * those of an ordinary scan.
 *
 * Nothing is multiplied with values of later tokens, not even by 0: they may be NaN.
 */
#include "platform/cpu/tmpl/scan_rows.h"

enum {
    LONGEST = 128, /* tokens of a chunk */
    LONGEST_BY_CHANNEL = 16,
    VISIT = 64, /* tokens of one head that are processed before the next head is visited */
};

typedef struct layout {
    scan_rows rows;
    size_t chunk, ld; /* chunk: most tokens in a chunk; ld: stride of matrices over tokens */
    size_t keys_t;    /* [widthp][ld] */
    size_t a, b;      /* [chunk][ld] */
    size_t s, z;      /* [widthp][dvp], [widthp] */
    /* [chunk] product of the decays since the chunk's beginning, and until its end. */
    size_t since, until;
    size_t keep, more; /* [widthp] decay of the whole chunk, as the coefficients of scan_fade() */
    size_t floats;
} layout;

static size_t longest(const fv_problem *p)
{
    return p->flags & FV_FLAG_DECAY_CHANNEL ? LONGEST_BY_CHANNEL : LONGEST;
}

static layout lay_out(const fv_problem *p, size_t chunk)
{
    layout l = {.rows = scan_lay_out(p, chunk), .chunk = chunk};
    const size_t width = l.rows.widthp;
    l.ld = fv_tile_round(chunk, FV_TILE_COLS);
    l.keys_t = l.rows.floats;
    l.a = l.keys_t + (p->flags & FV_FLAG_DECAY_CHANNEL ? 0 : width * l.ld);
    l.b = l.a + l.ld * l.ld;
    l.s = l.b + (p->flags & FV_FLAG_DELTA ? l.ld * l.ld : 0);
    l.z = l.s + width * l.rows.dvp;
    l.since = l.z + width;
    l.until = l.since + l.ld;
    l.keep = l.until + l.ld;
    l.more = l.keep + width;
    l.floats = l.more + width;
    return l;
}

/* Returns whether tokens have scalar decays, the same for all channels. */
FV_FN int fades(const fv_problem *p)
{
    return (p->flags & (FV_FLAG_DECAY | FV_FLAG_CENTRED)) != 0;
}

/* ---- products of tokens ---- */

/* Transposes K, since a row of A is a sum over the rows of K^T. */
static void transpose_keys(float *m, const layout *l, size_t n)
{
    const scan_rows *w = &l->rows;
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < w->width; i++)
            m[l->keys_t + i * l->ld + r] = m[w->k + r * w->widthp + i];
}

/* Computes the lower triangle of X K^T in whole tiles. Elements beyond row or column n are never
 * read. */
static void multiply_keys(float *out, const float *m, const layout *l, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += FV_TILE_M) {
        for (size_t j = 0; j < i + FV_TILE_M && j < n; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, x + i * l->rows.widthp, l->rows.widthp, 1, m + l->keys_t + j, l->ld,
                    l->rows.width);
            fv_tile_store(out + i * l->ld + j, l->ld, acc);
        }
    }
}

/* Multiplies A_ij by the decays of tokens j+1 .. i. */
static void fade_scores(float *a, const layout *l, const float *part, size_t n)
{
    static const float count[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const fv_v lane = fv_load(count), one = fv_set(1.f);
    for (size_t j = 0; j < n; j += FV_W) {
        fv_v run = one;
        for (size_t i = j; i < n; i++) {
            float *at = a + i * l->ld + j;
            run = fv_mul(run, fv_sel_lt(lane, fv_set((float)(i - j)), fv_set(part[i]), one));
            fv_store(at, fv_mul(fv_load(at), run));
        }
    }
}

/* Computes A, B and Q for scalar decays or none. Keys are left unscaled, because solve() reads
 * them. */
static void scalar_decays(float *m, const layout *l, const fv_problem *p, size_t n)
{
    const scan_rows *w = &l->rows;
    const float *part = m + w->part, *lost = m + w->lost;
    float since = 1.f, until = 1.f, gone = 0.f;
    transpose_keys(m, l, n);
    multiply_keys(m + l->a, m, l, m + w->q, n);
    if (fades(p))
        fade_scores(m + l->a, l, part, n);
    if (p->flags & FV_FLAG_DELTA) {
        multiply_keys(m + l->b, m, l, m + w->k, n);
        if (p->flags & FV_FLAG_DECAY)
            fade_scores(m + l->b, l, part, n);
    }
    for (size_t i = 0; i < n; i++) {
        gone += lost[i] * since;
        m[l->since + i] = since *= part[i];
        scan_scale(m + w->q + i * w->widthp, w->widthp, 0, since);
    }
    for (size_t j = n; j-- > 0; until *= part[j])
        m[l->until + j] = until;
    for (size_t i = 0; i < w->widthp; i += FV_W)
        scan_fade(m + l->keep + i, m + l->more + i, fv_set(since), fv_set(gone));
}

/* Computes A for decays per channel, n <= 16 tokens. A block of the key's channels is kept in
 * registers and fades from query to query. */
static void channel_scores(float *m, const layout *l, size_t n)
{
    const scan_rows *w = &l->rows;
    for (size_t i = 0; i < w->width; i += SCAN_BLOCK) {
        for (size_t j = 0; j < n; j++) {
            fv_v k[4];
            FV_UNROLL
            for (int v = 0; v < 4; v++)
                k[v] = fv_load(m + w->k + j * w->widthp + i + v * FV_W);
            for (size_t r = j; r < n; r++) {
                const float *q = m + w->q + r * w->widthp + i;
                const float *part = m + w->part + r * w->widthp + i;
                fv_v sum = fv_set(0.f);
                FV_UNROLL
                for (int v = 0; v < 4; v++) {
                    if (r > j)
                        k[v] = fv_mul(k[v], fv_load(part + v * FV_W));
                    sum = fv_fma(fv_load(q + v * FV_W), k[v], sum);
                }
                float *at = m + l->a + r * l->ld + j;
                *at = fv_hsum(sum) + (i ? *at : 0.f);
            }
        }
    }
}

static void channel_decays(float *m, const layout *l, size_t n)
{
    const scan_rows *w = &l->rows;
    channel_scores(m, l, n);
    for (size_t i = 0; i < w->widthp; i += FV_W) {
        fv_v since = fv_set(1.f), until = fv_set(1.f), gone = fv_set(0.f);
        for (size_t r = 0; r < n; r++) {
            float *q = m + w->q + r * w->widthp + i;
            gone = fv_fma(fv_load(m + w->lost + r * w->widthp + i), since, gone);
            since = fv_mul(since, fv_load(m + w->part + r * w->widthp + i));
            fv_store(q, fv_mul(fv_load(q), since));
        }
        for (size_t r = n; r-- > 0;) {
            float *k = m + w->k + r * w->widthp + i;
            fv_store(k, fv_mul(fv_load(k), until));
            until = fv_mul(until, fv_load(m + w->part + r * w->widthp + i));
        }
        scan_fade(m + l->keep + i, m + l->more + i, since, gone);
    }
}

/* ---- the chunk against the state ---- */

/* Computes U in place of V. */
static void solve(float *m, const layout *l, size_t n)
{
    const scan_rows *w = &l->rows;
    for (size_t j = 0; j < w->dvp; j += FV_TILE_COLS) {
        for (size_t i = 0; i < n; i += FV_TILE_M) {
            fv_v held[FV_TILE_M][FV_TILE_N];
            const float *b = m + l->b + i * l->ld;
            float *u = m + w->v + j;
            fv_tile(held, m + w->k + i * w->widthp, w->widthp, 1, m + l->s + j, w->dvp, w->width);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++)
                    held[r][v] = fv_mul(held[r][v], fv_set(m[l->since + i + r]));
            }
            fv_tile_add(held, b, l->ld, 1, u, w->dvp, i);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    float *at = u + (i + r) * w->dvp + v * FV_W;
                    const fv_v x =
                        fv_mul(fv_set(m[w->beta + i + r]), fv_sub(fv_load(at), held[r][v]));
                    fv_store(at, x);
                    FV_UNROLL
                    for (int t = r + 1; t < FV_TILE_M; t++)
                        held[t][v] = fv_fma(fv_set(b[t * l->ld + i + r]), x, held[t][v]);
                }
            }
        }
    }
}

/* Multiplies each row's output factor by 1 / (q.Z + eps), and advances Z by the chunk. */
static void divide(float *m, const layout *l, float eps, size_t n)
{
    const scan_rows *w = &l->rows;
    for (size_t r = 0; r < n; r++) {
        fv_v sum = fv_set(0.f);
        for (size_t i = 0; i < w->width; i += FV_W)
            sum = fv_fma(fv_load(m + w->q + r * w->widthp + i), fv_load(m + l->z + i), sum);
        for (size_t j = 0; j <= r; j += FV_W)
            sum = fv_add(sum, fv_first_n(fv_load(m + l->a + r * l->ld + j), scan_lanes(r + 1 - j)));
        m[w->read + r] /= fv_hsum(sum) + eps;
    }
    for (size_t i = 0; i < w->widthp; i += FV_W) {
        const fv_v z = fv_load(m + l->z + i);
        fv_v sum = fv_set(0.f);
        for (size_t r = 0; r < n; r++)
            sum = fv_add(sum, fv_load(m + w->k + r * w->widthp + i));
        sum = fv_fma(fv_load(m + l->more + i), z, sum);
        fv_store(m + l->z + i, fv_fma(fv_load(m + l->keep + i), z, sum));
    }
}

static void read_out(const fv_args *a, const fv_call *c, const float *m, const layout *l,
                     size_t head, size_t row, size_t n)
{
    const scan_rows *w = &l->rows;
    const enum fv_type type = a->prob.out;
    const size_t ld = a->ld[FV_SCAN_OUT];
    void *out = fv_element(c->p[FV_SCAN_OUT], type, row * ld + head * w->dv);
    for (size_t j = 0; j < w->dv; j += FV_TILE_COLS) {
        for (size_t i = 0; i < n; i += FV_TILE_M) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, m + w->q + i * w->widthp, w->widthp, 1, m + l->s + j, w->dvp, w->width);
            fv_tile_add_lower(acc, m + l->a + i * l->ld, l->ld, m + w->v + j, w->dvp, i);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                if (i + r >= n)
                    break;
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    const size_t col = j + (size_t)v * FV_W;
                    if (col < w->dv)
                        fv_row_store(fv_element(out, type, (i + r) * ld), type, col,
                                     scan_output(&a->prob, m, w, i + r, col, acc[r][v]),
                                     scan_lanes(w->dv - col));
                }
            }
        }
    }
}

/* S = (decays of the chunk) S + K^T V. The chunk's sum is completed before it is added to the
 * state. */
static void update_state(float *m, const layout *l, size_t n)
{
    const scan_rows *w = &l->rows;
    for (size_t j = 0; j < w->dvp; j += FV_TILE_COLS) {
        for (size_t i = 0; i < w->width; i += FV_TILE_M) {
            float *s = m + l->s + i * w->dvp + j;
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, m + w->k + i, 1, w->widthp, m + w->v + j, w->dvp, n);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                const fv_v keep = fv_set(m[l->keep + i + r]), more = fv_set(m[l->more + i + r]);
                FV_UNROLL
                for (int v = 0; v < FV_TILE_N; v++) {
                    const fv_v x = fv_load(s + r * w->dvp + v * FV_W);
                    acc[r][v] = fv_fma(keep, x, fv_fma(more, x, acc[r][v]));
                }
            }
            fv_tile_store(s, w->dvp, acc);
        }
    }
}

/* Position at which a chunk begins. */
typedef struct place {
    size_t head, row;
} place;

/* Prefetches n rows of an operand: the rows of a head are too far apart for hardware prefetchers.
 * Inlined, because GCC drops a call that it sees no effect of. */
FV_FN void fetch(const fv_args *a, const fv_call *c, int operand, place at, size_t n,
                 enum fv_type type, size_t width)
{
    enum { LINE = 64 };
    for (size_t row = at.row; row < at.row + n && row < c->rows; row++) {
        const char *p = fv_element(c->p[operand], type, row * a->ld[operand] + at.head * width);
        for (size_t i = 0; i < width * fv_type_size(type); i += LINE)
            __builtin_prefetch(p + i);
    }
}

/* Processes a chunk of n rows, and meanwhile prefetches the rows of `next`. */
static void chunk(const fv_args *a, const fv_call *c, const layout *l, place at, place next,
                  size_t n)
{
    const scan_rows *w = &l->rows;
    float *m = c->scratch;
    scan_take(m, a, c, w, at.head, at.row, n);
    if (a->prob.flags & FV_FLAG_CENTRED)
        scan_centre(m, a, c, w, at.head, n);
    fetch(a, c, FV_SCAN_Q, next, n, a->prob.in, w->d);
    if (a->prob.flags & FV_FLAG_DECAY_CHANNEL)
        channel_decays(m, l, n);
    else
        scalar_decays(m, l, &a->prob, n);
    fetch(a, c, FV_SCAN_K, next, n, a->prob.in, w->d);
    if (a->prob.flags & FV_FLAG_DELTA)
        solve(m, l, n);
    if (fades(&a->prob))
        for (size_t r = 0; r < n; r++)
            scan_scale(m + w->k + r * w->widthp, w->widthp, 0, m[l->until + r]);
    if (scan_divides(&a->prob))
        divide(m, l, a->f[1], n);
    read_out(a, c, m, l, at.head, at.row, n);
    fetch(a, c, FV_SCAN_V, next, n, a->prob.in, w->dv);
    if (a->prob.flags & FV_FLAG_DECAY_CHANNEL)
        fetch(a, c, FV_SCAN_DECAY, next, n, FV_F32, w->d);
    update_state(m, l, n);
}

static void load_state(const fv_args *a, const fv_call *c, const layout *l, size_t head)
{
    const scan_rows *w = &l->rows;
    float *m = c->scratch;
    fv_tile_pack(m + l->s, w->dvp, scan_state(c, w, head), w->dv, w->width, w->dv);
    if (scan_divides(&a->prob))
        fv_tile_pack(m + l->z, w->widthp, scan_divisor(a, c, w, head), w->width, 1, w->width);
}

static void store_state(const fv_args *a, const fv_call *c, const layout *l, size_t head)
{
    const scan_rows *w = &l->rows;
    const float *m = c->scratch;
    float *s = scan_state(c, w, head);
    for (size_t i = 0; i < w->width; i++)
        memcpy(s + i * w->dv, m + l->s + i * w->dvp, w->dv * sizeof *m);
    if (scan_divides(&a->prob))
        memcpy(scan_divisor(a, c, w, head), m + l->z, w->width * sizeof *m);
}

/* Visits the heads in turn every VISIT tokens, because rows of heads are contiguous and should be
 * read before they leave the cache. */
void FV_NAME(fv_k_scan_f32_chunk)(const fv_args *a, const fv_call *c)
{
    size_t size = a->u[0] ? a->u[0] : a->knobs.v[0];
    if (size > longest(&a->prob))
        size = longest(&a->prob);
    const layout l = lay_out(&a->prob, size < c->rows ? size : c->rows);
    const size_t visit = fv_tile_round(VISIT, l.chunk), heads = (size_t)c->col0 + c->cols;
    for (size_t row = 0; row < c->rows; row += visit) {
        const size_t end = c->rows - row < visit ? c->rows : row + visit;
        for (size_t head = c->col0; head < heads; head++) {
            load_state(a, c, &l, head);
            for (size_t at = row; at < end; at += l.chunk) {
                const place next =
                    head + 1 < heads ? (place){head + 1, at} : (place){c->col0, at + visit};
                chunk(a, c, &l, (place){head, at}, next, end - at < l.chunk ? end - at : l.chunk);
            }
            store_state(a, c, &l, head);
        }
    }
}

static bool applies(const fv_problem *p)
{
    return SCAN_FEATURES[p->mech] && !(p->flags & FV_FLAG_RECURRENT);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows < longest(p) ? rows : longest(p)).floats * sizeof(float);
}

/* Returns the estimated cost. The term that does not depend on rows is the copy of the state into
 * the scratch and back. The rates only serve to choose between the two forms of SCAN. */
static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    const double passes = p->flags & FV_FLAG_DELTA ? 1.5 : 1.;
    const double row = passes * scan_work(p) / (FV_W * 3e9) + 2e-8;
    return p->heads * (scan_work(p) / (FV_W * 3e8) + 1e-7 + row * p->dim[FV_DIM_ROWS]);
}

/* Shorter chunks waste fewer products above the diagonal; a vector should still be full. */
static const fv_knob knobs[] = {{"chunk", {FV_W > 8 ? 32 : 16, FV_W > 8 ? 16 : 32, 64, 128}, 4},
                                {0}};

const fv_kernel_hooks FV_NAME(fv_h_scan_f32_chunk) = {
    .applies = applies, .cost = cost, .scratch = scratch_bytes, .knobs = knobs};
