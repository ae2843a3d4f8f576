/* pool_tmpl.c: MEAN_REDUCE and MAP_REDUCE: pooling over all tokens. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"

enum { BLOCK = 4 }; /* vectors of channels whose accumulators stay in registers */
enum { ROWS = 64 }; /* rows that share one maximum; a multiple of every FV_W */

/* ---- mean ---- */

/* Adds f times the sum of the rows to n vectors of channels, of which the last has `rest` lanes. */
FV_FN void mean_block(float *partial, const float *in, size_t ld, size_t rows, int n, int rest,
                      float f, bool first)
{
    fv_v sum[BLOCK];
    FV_UNROLL
    for (int k = 0; k < n; k++)
        sum[k] = fv_set(0.f);
    for (size_t r = 0; r < rows; r++, in += ld) {
        FV_UNROLL
        for (int k = 0; k < n; k++)
            sum[k] =
                fv_add(sum[k], k + 1 < n ? fv_load(in + k * FV_W) : fv_load_n(in + k * FV_W, rest));
    }
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        const int lanes = k + 1 < n ? FV_W : rest;
        const fv_v carry = first ? fv_set(0.f) : fv_load_n(partial + k * FV_W, lanes);
        fv_store_n(partial + k * FV_W, fv_fma(fv_set(f), sum[k], carry), lanes);
    }
}

/* Updates the running maxima of n vectors of channels with f times the largest values of the rows,
 * which are -INFINITY if there are no rows. */
FV_FN void largest_block(float *partial, const float *in, size_t ld, size_t rows, int n, int rest,
                         float f, bool first)
{
    fv_v top[BLOCK];
    FV_UNROLL
    for (int k = 0; k < n; k++)
        top[k] = fv_set(-INFINITY);
    for (size_t r = 0; r < rows; r++, in += ld) {
        FV_UNROLL
        for (int k = 0; k < n; k++)
            top[k] =
                fv_max(k + 1 < n ? fv_load(in + k * FV_W) : fv_load_n(in + k * FV_W, rest), top[k]);
    }
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        const int lanes = k + 1 < n ? FV_W : rest;
        const fv_v x = fv_mul(fv_set(f), top[k]);
        fv_store_n(partial + k * FV_W, first ? x : fv_max(x, fv_load_n(partial + k * FV_W, lanes)),
                   lanes);
    }
}

void FV_NAME(fv_k_mean_reduce_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[1], ld = a->ld[FV_MEAN_IN];
    const uint32_t prefix = a->u[0], left = c->row0 < prefix ? prefix - c->row0 : 0;
    const uint32_t skip = left < c->rows ? left : c->rows;
    const float *in = (const float *)c->p[FV_MEAN_IN] + skip * ld;
    float *partial = c->p[FV_MEAN_PARTIAL];
    const size_t rows = c->rows - skip;
    const bool largest = a->prob.flags & FV_FLAG_LARGEST;
    size_t i = 0;
    for (; i + BLOCK * FV_W <= width; i += BLOCK * FV_W) {
        if (largest)
            largest_block(partial + i, in + i, ld, rows, BLOCK, FV_W, a->f[0], c->first);
        else
            mean_block(partial + i, in + i, ld, rows, BLOCK, FV_W, a->f[0], c->first);
    }
    for (; i < width; i += FV_W) {
        const int lanes = width - i < FV_W ? (int)(width - i) : FV_W;
        if (largest)
            largest_block(partial + i, in + i, ld, rows, 1, lanes, a->f[0], c->first);
        else
            mean_block(partial + i, in + i, ld, rows, 1, lanes, a->f[0], c->first);
    }
}

/* ---- attention pooling ---- */

FV_FN float dot(const float *a, const float *b, size_t n)
{
    fv_v sum = fv_set(0.f);
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        sum = fv_fma(fv_load(a + i), fv_load(b + i), sum);
    const int rest = (int)(n - i);
    return fv_hsum(fv_fma(fv_load_n(a + i, rest), fv_load_n(b + i, rest), sum));
}

/* acc = factor acc + the sum over rows of p[r] v[r]. */
FV_FN void accumulate(float *acc, float factor, const float *p, const float *v, size_t ld,
                      size_t rows, size_t d)
{
    for (size_t i = 0; i < d; i += FV_W) {
        const int lanes = d - i < FV_W ? (int)(d - i) : FV_W;
        fv_v sum = fv_mul(fv_set(factor), fv_load_n(acc + i, lanes));
        for (size_t r = 0; r < rows; r++)
            sum = fv_fma(fv_set(p[r]), fv_load_n(v + r * ld + i, lanes), sum);
        fv_store_n(acc + i, sum, lanes);
    }
}

/* Adds up to ROWS rows to one head's state: the maximum m, the sum of weights l, and acc. */
static void pool_rows(float *state, const float *q, const float *k, size_t ldk, const float *v,
                      size_t ldv, size_t rows, size_t d, float scale)
{
    float p[ROWS], top = state[0];
    for (size_t r = 0; r < rows; r++) {
        p[r] = scale * dot(q, k + r * ldk, d);
        top = p[r] > top ? p[r] : top;
    }
    for (size_t r = rows; r % FV_W; r++)
        p[r] = -INFINITY;
    fv_v sum = fv_set(0.f);
    for (size_t r = 0; r < rows; r += FV_W) {
        const fv_v e = fv_exp(fv_sub(fv_load(p + r), fv_set(top)));
        fv_store(p + r, e);
        sum = fv_add(sum, e);
    }
    const float factor = expf(state[0] - top);
    state[0] = top;
    state[1] = factor * state[1] + fv_hsum(sum);
    accumulate(state + 2, factor, p, v, ldv, rows, d);
}

void FV_NAME(fv_k_map_reduce_f32)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t ldk = a->ld[FV_MAP_K], ldv = a->ld[FV_MAP_V];
    for (size_t h = 0; h < a->prob.heads; h++) {
        const float *q = (const float *)c->p[FV_MAP_Q] + h * d;
        const float *k = (const float *)c->p[FV_MAP_K] + h * d;
        const float *v = (const float *)c->p[FV_MAP_V] + h * d;
        float *state = (float *)c->p[FV_MAP_PARTIAL] + h * (2 + d);
        if (c->first) {
            state[0] = -INFINITY;
            for (size_t i = 0; i <= d; i++)
                state[1 + i] = 0.f;
        }
        for (size_t r = 0; r < c->rows; r += ROWS)
            pool_rows(state, q, k + r * ldk, ldk, v + r * ldv, ldv,
                      c->rows - r < ROWS ? c->rows - r : ROWS, d, a->f[0]);
    }
}
