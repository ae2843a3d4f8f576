/* gemm_grad.c: blocking and packing of GEMM_GRAD_W, the same for every kit: products of what GEMM's
 * tiles multiply, summed over tokens.
 *
 *   for blocks of at most BLOCK tokens        both operands' columns lie together: panels
 *     rows of the call packed                 a block of DOUT, transposed, stays in L2
 *     for groups of columns                   packed
 *       for panels of nr columns              a BLOCK x nr block of IN stays in L1 or L2
 *         for panels of mr rows
 *           tile, added to OUT
 */
#include "platform/cpu/gemm.h"

#include <string.h>

#include "base/num.h"

enum {
    BLOCK = 256, /* tokens of one sum: bounds its rounding error, and a block of DOUT stays in L2 */
    GROUP = 256  /* columns that are packed at a time, whole panels */
};

/* Tokens of a block: blocks differ by less than a group of 4. */
static uint32_t block_of(uint32_t tokens)
{
    return fv_round_up(fv_ceil_div(tokens, fv_ceil_div(tokens, BLOCK)), 4);
}

/* Rows of each panel but the last. */
static uint32_t panel_of(const fv_gemm_kit *kit, uint32_t rows)
{
    return fv_ceil_div(rows, fv_ceil_div(rows, kit->mr));
}

/* Four tokens of `rows` columns of DOUT, by panels of m that are `apart` floats apart. */
static void pack_four(float *dst, const float *const row[4], uint32_t rows, uint32_t m,
                      size_t apart)
{
    for (uint32_t r = 0; r < rows; r += m, dst += apart * m) {
        const uint32_t n = fv_min_u32(m, rows - r);
        float *to = dst;
        for (uint32_t i = r; i < r + n; i++, to += 4) {
            to[0] = row[0][i];
            to[1] = row[1][i];
            to[2] = row[2][i];
            to[3] = row[3][i];
        }
    }
}

/* `tokens` rows of DOUT as panels of m rows of its transpose: groups of 4 tokens, zeros beyond. */
static void pack_dout(float *dst, const float *src, size_t ld, uint32_t tokens, uint32_t rows,
                      uint32_t m, const float *zeros)
{
    const uint32_t depth = fv_round_up(tokens, 4);
    for (uint32_t t = 0; t < depth; t += 4) {
        const float *row[4];
        for (uint32_t i = 0; i < 4; i++)
            row[i] = t + i < tokens ? src + (t + i) * ld : zeros;
        const uint32_t full = rows / m * m, rest = rows - full;
        pack_four(dst + (size_t)t * m, row, full, m, depth);
        for (uint32_t i = 0; i < 4; i++)
            row[i] += row[i] == zeros ? 0 : full;
        if (rest)
            pack_four(dst + (size_t)full * depth + (size_t)t * rest, row, rest, rest, depth);
    }
}

/* `tokens` rows of `cols` columns of IN as panels of nr, zeros beyond. */
static void pack_in(float *dst, const float *src, size_t ld, uint32_t tokens, uint32_t cols,
                    uint32_t nr)
{
    const uint32_t depth = fv_round_up(tokens, 4);
    for (uint32_t c = 0; c < cols; c += nr, dst += (size_t)depth * nr) {
        const uint32_t n = fv_min_u32(nr, cols - c);
        float *to = dst;
        for (uint32_t t = 0; t < depth; t++, to += nr) {
            if (t < tokens)
                memcpy(to, src + t * ld + c, n * sizeof *to);
            if (t >= tokens || n < nr)
                memset(t < tokens ? to + n : to, 0, (t < tokens ? nr - n : nr) * sizeof *to);
        }
    }
}

static void store_tile(float *out, size_t ld, const float *acc, uint32_t nr, uint32_t rows,
                       uint32_t cols, bool add)
{
    for (uint32_t i = 0; i < rows; i++, out += ld, acc += nr)
        for (uint32_t j = 0; j < cols; j++)
            out[j] = add ? out[j] + acc[j] : acc[j];
}

/* What a call works with, one after the other in its scratch. */
typedef struct scratch {
    float *in;    /* panels of a group of columns */
    float *acc;   /* a tile */
    float *dout;  /* panels of the call's rows */
    float *zeros; /* a row of DOUT */
} scratch;

size_t fv_gemm_grad_scratch(const fv_gemm_kit *kit, const fv_problem *p, uint32_t rows)
{
    const size_t depth = block_of(p->dim[FV_GEMM_K]);
    const size_t cols = fv_round_up(fv_min_u32(p->dim[FV_GEMM_N], GROUP), kit->nr);
    return ((cols + rows) * depth + (size_t)kit->mr * kit->nr + rows) * sizeof(float);
}

static scratch scratch_of(const fv_gemm_kit *kit, const fv_args *a, const fv_call *c)
{
    const size_t depth = block_of(a->prob.dim[FV_GEMM_K]);
    scratch s = {.in = c->scratch};
    s.acc = s.in + fv_round_up(fv_min_u32(a->prob.dim[FV_GEMM_N], GROUP), kit->nr) * depth;
    s.dout = s.acc + (size_t)kit->mr * kit->nr;
    s.zeros = s.dout + c->rows * depth;
    memset(s.zeros, 0, c->rows * sizeof *s.zeros);
    return s;
}

/* Columns [left, right) of a block of tokens whose rows are packed. */
static void run_group(const fv_gemm_kit *kit, const fv_args *a, const fv_call *c, const scratch *s,
                      uint32_t left, uint32_t right, uint32_t depth, bool add)
{
    const uint32_t rows = c->rows, m = panel_of(kit, rows);
    const size_t ld = a->ld[FV_GRAD_W_OUT];
    float *out = c->p[FV_GRAD_W_OUT];
    for (uint32_t col = left; col < right; col += kit->nr) {
        const float *panel = s->in + (size_t)(col - left) * depth;
        for (uint32_t r = 0; r < rows; r += m) {
            const uint32_t n = fv_min_u32(m, rows - r);
            kit->tile(s->acc, s->dout + (size_t)r * depth, panel, depth / 4, n, true,
                      (const char *)panel);
            store_tile(out + r * ld + col, ld, s->acc, kit->nr, n, fv_min_u32(kit->nr, right - col),
                       add);
        }
    }
}

void fv_gemm_grad_run(const fv_gemm_kit *kit, const fv_args *a, const fv_call *c)
{
    const uint32_t tokens = a->prob.dim[FV_GEMM_K], block = block_of(tokens);
    const uint32_t end = c->col0 + c->cols;
    const size_t ld_dout = a->ld[FV_GRAD_W_DOUT], ld_in = a->ld[FV_GRAD_W_IN];
    const scratch s = scratch_of(kit, a, c);
    for (uint32_t t = 0; t < tokens; t += block) {
        const uint32_t n = fv_min_u32(block, tokens - t);
        const float *dout = (const float *)c->p[FV_GRAD_W_DOUT] + t * ld_dout + c->row0;
        const float *in = (const float *)c->p[FV_GRAD_W_IN] + t * ld_in;
        const bool add = t || a->prob.flags & FV_FLAG_ACCUMULATE;
        pack_dout(s.dout, dout, ld_dout, n, c->rows, panel_of(kit, c->rows), s.zeros);
        for (uint32_t left = c->col0, right; left < end; left = right) {
            right = fv_min_u32(left + GROUP, end);
            pack_in(s.in, in + left, ld_in, n, right - left, kit->nr);
            run_group(kit, a, c, &s, left, right, fv_round_up(n, 4), add);
        }
    }
}
