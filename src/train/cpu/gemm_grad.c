/* gemm_grad.c: blocking and packing of GEMM_GRAD_W, the same for every microkernel. Products use
 * GEMM's tiles and are summed over tokens.
 *
 *   for blocks of at most BLOCK tokens        columns of both operands become panels
 *     rows of the call packed                 a block of DOUT, transposed, stays in L2
 *     for groups of columns                   packed
 *       for panels of nr columns              a BLOCK x nr block of IN stays in L1 or L2
 *         for panels of mr rows
 *           tile, added to OUT
 *
 * bfloat16 rows are packed unchanged for a microkernel that multiplies bfloat16. For others, they
 * are converted to float32. */
#include "train/cpu/gemm_grad.h"

#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "ops/contracts/product.h"
#include "train/ref/training.h"

enum {
    /* tokens in one sum; limits the sum's rounding error, and keeps a block of DOUT in L2 */
    BLOCK = 256,
    GROUP = 256 /* columns that are packed at a time; a multiple of nr */
};

/* Returns the number of tokens in each block except the last: a multiple of 4 such that all blocks
 * have nearly the same size. */
static uint32_t block_of(uint32_t tokens)
{
    return fv_round_up(fv_ceil_div(tokens, fv_ceil_div(tokens, BLOCK)), 4);
}

/* Returns the number of rows in each panel except the last. */
static uint32_t panel_of(const fv_gemm_microkernel *mk, uint32_t rows)
{
    return fv_ceil_div(rows, fv_ceil_div(rows, mk->mr));
}

/* ---- packing ---- */

/* The type of the rows, and the type that they are packed as: F32 as F32, BF16 as F32, or BF16 as
 * BF16. */
#define TYPES enum fv_type from, enum fv_type to

static inline void put(void *dst, size_t at, const void *row, size_t i, TYPES)
{
    if (to == FV_F32)
        ((float *)dst)[at] =
            from == FV_F32 ? ((const float *)row)[i] : fv_float_of_bf16(((const uint16_t *)row)[i]);
    else
        ((uint16_t *)dst)[at] = ((const uint16_t *)row)[i];
}

/* Packs four tokens of columns [first, first + rows) of DOUT as panels of m columns each. A panel
 * has `stride` elements for each of its columns. */
static inline void pack_four(void *dst, const void *const row[4], uint32_t first, uint32_t rows,
                             uint32_t m, size_t stride, TYPES)
{
    for (uint32_t r = 0; r < rows; r += m, dst = fv_element(dst, to, stride * m)) {
        const uint32_t n = fv_min_u32(m, rows - r);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < 4; k++)
                put(dst, 4 * i + k, row[k], first + r + i, from, to);
    }
}

/* Packs `tokens` rows of DOUT, transposed, as panels of m rows: groups of 4 tokens, the last padded
 * with zeros. */
static inline void pack_dout_of(void *dst, const void *src, size_t ld, uint32_t tokens,
                                uint32_t rows, uint32_t m, const float *zeros, TYPES)
{
    const uint32_t depth = fv_round_up(tokens, 4), full = rows / m * m, rest = rows - full;
    for (uint32_t t = 0; t < depth; t += 4) {
        const void *row[4];
        for (uint32_t i = 0; i < 4; i++)
            row[i] = t + i < tokens ? fv_element(src, from, (t + i) * ld) : (const void *)zeros;
        pack_four(fv_element(dst, to, (size_t)t * m), row, 0, full, m, depth, from, to);
        if (rest)
            pack_four(fv_element(dst, to, (size_t)full * depth + (size_t)t * rest), row, full, rest,
                      rest, depth, from, to);
    }
}

/* Packs n columns of one token, or interleaved of 2 or 4 tokens. */
static inline void lay_tokens(void *restrict dst, const void *const row[4], uint32_t n,
                              const uint32_t interleave, TYPES)
{
    const void *restrict a = row[0], *restrict b = row[1], *restrict c = row[2],
                         *restrict d = row[3];
    for (size_t i = 0; i < n; i++) {
        put(dst, interleave * i, a, i, from, to);
        if (interleave > 1)
            put(dst, interleave * i + 1, b, i, from, to);
        if (interleave > 2) {
            put(dst, interleave * i + 2, c, i, from, to);
            put(dst, interleave * i + 3, d, i, from, to);
        }
    }
}

/* Packs `tokens` rows of `cols` columns of IN as panels of nr columns, padded with zeros. Within a
 * panel, `interleave` tokens of a column are adjacent. */
static inline void pack_in_of(void *dst, const void *src, size_t ld, uint32_t tokens, uint32_t cols,
                              uint32_t nr, const float *zeros, const uint32_t interleave, TYPES)
{
    const uint32_t depth = fv_round_up(tokens, 4);
    const size_t step = (size_t)interleave * nr;
    for (uint32_t c = 0; c < cols; c += nr) {
        const uint32_t n = fv_min_u32(nr, cols - c);
        for (uint32_t t = 0; t < depth; t += interleave, dst = fv_element(dst, to, step)) {
            const void *row[4] = {zeros, zeros, zeros, zeros};
            for (uint32_t k = 0; k < interleave && t + k < tokens; k++)
                row[k] = fv_element(src, from, (t + k) * ld + c);
            lay_tokens(dst, row, n, interleave, from, to);
            memset(fv_element(dst, to, (size_t)interleave * n), 0,
                   (size_t)interleave * (nr - n) * fv_type_size(to));
        }
    }
}

static void pack_dout(const fv_gemm_microkernel *mk, void *dst, const void *src, enum fv_type type,
                      size_t ld, uint32_t tokens, uint32_t rows, const float *zeros)
{
    const uint32_t m = panel_of(mk, rows);
    if (type == FV_F32)
        pack_dout_of(dst, src, ld, tokens, rows, m, zeros, FV_F32, FV_F32);
    else if (mk->weight == FV_F32)
        pack_dout_of(dst, src, ld, tokens, rows, m, zeros, FV_BF16, FV_F32);
    else
        pack_dout_of(dst, src, ld, tokens, rows, m, zeros, FV_BF16, FV_BF16);
}

static void pack_in(const fv_gemm_microkernel *mk, void *dst, const void *src, enum fv_type type,
                    size_t ld, uint32_t tokens, uint32_t cols, const float *zeros)
{
    if (type == FV_F32)
        pack_in_of(dst, src, ld, tokens, cols, mk->nr, zeros, 1, FV_F32, FV_F32);
    else if (mk->weight == FV_F32)
        pack_in_of(dst, src, ld, tokens, cols, mk->nr, zeros, 1, FV_BF16, FV_F32);
    else if (mk->interleave == 2)
        pack_in_of(dst, src, ld, tokens, cols, mk->nr, zeros, 2, FV_BF16, FV_BF16);
    else
        pack_in_of(dst, src, ld, tokens, cols, mk->nr, zeros, 4, FV_BF16, FV_BF16);
}

/* ---- products ---- */

static void store_tile(float *out, size_t ld, const float *acc, uint32_t nr, uint32_t rows,
                       uint32_t cols, bool add)
{
    for (uint32_t i = 0; i < rows; i++, out += ld, acc += nr)
        for (uint32_t j = 0; j < cols; j++)
            out[j] = add ? out[j] + acc[j] : acc[j];
}

/* The parts of a call's scratch, in their order in memory. */
typedef struct scratch {
    void *in;     /* packed panels of a group of columns of IN */
    float *acc;   /* accumulators of a tile */
    float *zeros; /* as many zeros as a row of DOUT, or of a group of columns, has elements */
    void *dout;   /* packed panels of the call's rows of DOUT */
} scratch;

/* Returns the number of elements in the panels of a group of columns, over a block of tokens. */
static size_t group_size(const fv_gemm_microkernel *mk, const fv_problem *p)
{
    return (size_t)fv_round_up(fv_min_u32(p->dim[FV_GEMM_N], GROUP), mk->nr) *
           block_of(p->dim[FV_GEMM_K]);
}

static size_t zeros_size(uint32_t rows)
{
    return rows > GROUP ? rows : GROUP;
}

size_t fv_gemm_grad_scratch(const fv_gemm_microkernel *mk, const fv_problem *p, uint32_t rows)
{
    const size_t packed = group_size(mk, p) + (size_t)rows * block_of(p->dim[FV_GEMM_K]);
    return packed * fv_type_size(mk->weight) +
           ((size_t)mk->mr * mk->nr + zeros_size(rows)) * sizeof(float);
}

static scratch scratch_of(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c)
{
    scratch s = {.in = c->scratch};
    s.acc = (float *)(void *)fv_element(s.in, mk->weight, group_size(mk, &a->prob));
    s.zeros = s.acc + (size_t)mk->mr * mk->nr;
    s.dout = s.zeros + zeros_size(c->rows);
    memset(s.zeros, 0, zeros_size(c->rows) * sizeof *s.zeros);
    return s;
}

/* Multiplies columns [left, right) of IN by the packed rows of DOUT, over a block of tokens. Stores
 * the tiles in OUT, or adds them to OUT. */
static void run_group(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c,
                      const scratch *s, uint32_t left, uint32_t right, uint32_t depth, bool add)
{
    const uint32_t rows = c->rows, m = panel_of(mk, rows);
    const size_t ld = a->ld[FV_GRAD_W_OUT];
    float *out = c->p[FV_GRAD_W_OUT];
    for (uint32_t col = left; col < right; col += mk->nr) {
        const char *panel = fv_element(s->in, mk->weight, (size_t)(col - left) * depth);
        for (uint32_t r = 0; r < rows; r += m) {
            const uint32_t n = fv_min_u32(m, rows - r);
            mk->tile(s->acc, fv_element(s->dout, mk->weight, (size_t)r * depth), panel, depth / 4,
                     n, true, panel);
            store_tile(out + r * ld + col, ld, s->acc, mk->nr, n, fv_min_u32(mk->nr, right - col),
                       add);
        }
    }
}

void fv_gemm_grad_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c)
{
    const uint32_t tokens = a->prob.dim[FV_GEMM_K], block = block_of(tokens);
    const uint32_t end = c->col0 + c->cols;
    const size_t ld_dout = a->ld[FV_GRAD_W_DOUT], ld_in = a->ld[FV_GRAD_W_IN];
    const enum fv_type type = a->prob.in;
    const scratch s = scratch_of(mk, a, c);
    for (uint32_t t = 0; t < tokens; t += block) {
        const uint32_t n = fv_min_u32(block, tokens - t);
        const bool add = t || a->prob.flags & FV_FLAG_ACCUMULATE;
        pack_dout(mk, s.dout, fv_element(c->p[FV_GRAD_W_DOUT], type, t * ld_dout + c->row0), type,
                  ld_dout, n, c->rows, s.zeros);
        for (uint32_t left = c->col0, right; left < end; left = right) {
            right = fv_min_u32(left + GROUP, end);
            pack_in(mk, s.in, fv_element(c->p[FV_GRAD_W_IN], type, t * ld_in + left), type, ld_in,
                    n, right - left, s.zeros);
            run_group(mk, a, c, &s, left, right, fv_round_up(n, 4), add);
        }
    }
}
