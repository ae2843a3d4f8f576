/* lattn_layout.h: the scratch of a call of LATTN_REDUCE and LATTN_APPLY, and functions that convert
 * rows and copy them to it. mech/mech.h must be included before it. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_LAYOUT_H
#define FOVEA_PLATFORM_TMPL_LATTN_LAYOUT_H

#include "ops/mech_traits.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/lattn_bf16.h"
#include "platform/cpu/tmpl/lattn_rows.h"
#include "platform/cpu/tmpl/rotation.h"
#include "platform/cpu/vec/row.h"
#include "platform/cpu/vec/tile.h"

enum {
    BLOCK = 192, /* rows whose features and values stay in L1 and L2 */
    /* states are plain sums, so a block is added to a state without merging */
    SUMS = !CENTRED && !SHIFT,
    /* Vectors of a key that are mapped together. Each row is on a page of its own, so it is better
     * to read all of it at one visit, while the sums of its features stay in registers. */
    VECTORS = FV_REGS >= 32 ? 4 : 2,
};

/* Sizes: dp is d rounded up; `width` is that of a row of features. The values of stream s are
 * packed from column s * streamp on. The other fields are offsets in a call's scratch: stat[0] is
 * for keys, stat[1] for queries. Rows that are not stored as floats are converted in `k` (keys or
 * queries) and `v` (values or results). */
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

/* Returns the rows to prefetch while rows [r, r + n) are computed: the next rows of the head, else
 * the next head's, else those of the next call. */
FV_FN const float *after(const fv_call *c, const float *x, size_t ld, size_t d, size_t head,
                         size_t r, size_t n)
{
    if (r + n < c->rows)
        return x + (r + n) * ld + head * d;
    if (head + 1 < (size_t)c->col0 + c->cols)
        return x + (head + 1) * d;
    return x + c->rows * ld + c->col0 * d;
}

/* Returns the number of rows in a block, when a call's rows are split into blocks of nearly equal
 * size. */
static size_t block_rows(size_t rows)
{
    const size_t blocks = (rows + BLOCK - 1) / BLOCK;
    return (rows + blocks - 1) / blocks;
}

/* The rows of an operand in memory, of type F32 or BF16. */
typedef struct stored {
    void *x;
    size_t ld;
    enum fv_type type;
} stored;

FV_FN stored stored_as(const fv_args *a, const fv_call *c, int operand)
{
    return (stored){c->p[operand], a->ld[operand], (enum fv_type)a->type[operand]};
}

/* Returns the number of rows from row r on, `width` columns from column `col` on, as floats with a
 * stride of *ld: in place if they are stored as floats, else in `buffer`. */
static float *floats_at(float *buffer, size_t *ld, const stored *s, size_t r, size_t col,
                        size_t width)
{
    *ld = s->type == FV_F32 ? s->ld : width;
    return s->type == FV_F32 ? (float *)s->x + r * s->ld + col : buffer;
}

/* Returns n rows from row r on as floats, converted into `buffer` if they are not stored as floats.
 */
static const float *get_floats(float *buffer, size_t *ld, const stored *s, size_t r, size_t n,
                               size_t col, size_t width)
{
    float *x = floats_at(buffer, ld, s, r, col, width);
    for (size_t i = 0; s->type != FV_F32 && i < n; i++)
        fv_row_convert(x + i * width, FV_F32, fv_element(s->x, FV_BF16, (r + i) * s->ld + col),
                       FV_BF16, width);
    return x;
}

/* Stores n rows that were computed at x, unless they were computed in place. */
static void put_floats(const stored *s, size_t r, size_t n, size_t col, size_t width,
                       const float *x)
{
    for (size_t i = 0; s->type != FV_F32 && i < n; i++)
        fv_row_convert(fv_element(s->x, FV_BF16, (r + i) * s->ld + col), FV_BF16, x + i * width,
                       FV_F32, width);
}

/* Computes statistics that cover all heads, once before the first head. */
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

/* y = factor x for n values, then zeros up to np. */
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

#endif
