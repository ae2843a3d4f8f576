/* groupnorm_tmpl.c: implements GROUPNORM_REDUCE and GROUPNORM with vec.h's vector functions. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/act.h"
#include "platform/cpu/vec/row.h"

/* Vectors of channels whose accumulators, or whose scales and offsets, stay in registers. */
enum { BLOCK = 4 };
/* rows whose statistics are computed and merged at a time; they stay in the cache for a second
 * pass */
enum { ROWS = 64 };

/* ---- statistics ---- */

/* Mean and variance of n vectors of channels, of which the last has `rest` lanes. */
typedef struct moments {
    fv_v mean[BLOCK], var[BLOCK];
} moments;

/* Computes mean and variance of up to ROWS rows, from their differences to the first row. */
FV_FN moments measure(const void *in, enum fv_type type, size_t at, size_t ld, size_t rows, int n,
                      int rest)
{
    const fv_v share = fv_set(1.f / (float)rows);
    fv_v from[BLOCK], sum[BLOCK], square[BLOCK];
    moments m;
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        from[k] = fv_row_load(in, type, at + (size_t)k * FV_W, k + 1 < n ? FV_W : rest);
        sum[k] = square[k] = fv_set(0.f);
    }
    for (size_t r = 1; r < rows; r++) {
        FV_UNROLL
        for (int k = 0; k < n; k++) {
            const fv_v x =
                fv_row_load(in, type, at + r * ld + (size_t)k * FV_W, k + 1 < n ? FV_W : rest);
            sum[k] = fv_add(sum[k], fv_sub(x, from[k]));
        }
    }
    FV_UNROLL
    for (int k = 0; k < n; k++)
        sum[k] = fv_mul(sum[k], share);
    for (size_t r = 0; r < rows; r++) {
        FV_UNROLL
        for (int k = 0; k < n; k++) {
            const fv_v x =
                fv_row_load(in, type, at + r * ld + (size_t)k * FV_W, k + 1 < n ? FV_W : rest);
            const fv_v delta = fv_sub(fv_sub(x, from[k]), sum[k]);
            square[k] = fv_fma(delta, delta, square[k]);
        }
    }
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        m.mean[k] = fv_add(from[k], sum[k]);
        m.var[k] = fv_mul(square[k], share);
    }
    return m;
}

/* Merges the moments m into the means and variances of a partial; f is the share of all rows that m
 * covers. */
FV_FN void merge(float *mean, float *var, const moments *m, float f, int n, int rest)
{
    const fv_v part = fv_set(f), other = fv_set(1.f - f);
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        const int lanes = k + 1 < n ? FV_W : rest;
        const fv_v before = fv_load_n(mean + k * FV_W, lanes);
        const fv_v delta = fv_sub(m->mean[k], before), step = fv_mul(delta, part);
        const fv_v both = fv_fma(m->var[k], part, fv_mul(fv_load_n(var + k * FV_W, lanes), other));
        fv_store_n(mean + k * FV_W, fv_add(before, step), lanes);
        fv_store_n(var + k * FV_W, fv_fma(fv_mul(step, other), delta, both), lanes);
    }
}

/* Adds the call's rows to the partial moments of n vectors of channels from channel `at` on. */
FV_FN void reduce_block(const fv_args *a, const fv_call *c, enum fv_type type, size_t at, int n,
                        int rest)
{
    const size_t width = a->prob.dim[FV_ROW_C], ld = a->ld[FV_MOMENTS_IN];
    float *mean = (float *)c->p[FV_MOMENTS_PARTIAL] + at, *var = mean + width;
    float *share = var + width, all = c->first ? 0.f : *share;
    const size_t lanes = (size_t)(n - 1) * FV_W + (size_t)rest;
    for (size_t i = 0; c->first && i < lanes; i++)
        mean[i] = var[i] = 0.f;
    for (size_t r = 0; r < c->rows; r += ROWS) {
        const size_t rows = c->rows - r < ROWS ? c->rows - r : ROWS;
        const moments m = measure(c->p[FV_MOMENTS_IN], type, r * ld + at, ld, rows, n, rest);
        const float more = (float)rows * a->f[0];
        all += more;
        merge(mean, var, &m, more / all, n, rest);
    }
    for (size_t i = 0; i < lanes; i++)
        share[i] = all;
}

FV_FN void reduce(const fv_args *a, const fv_call *c, enum fv_type type)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    size_t i = 0;
    for (; i + BLOCK * FV_W <= width; i += BLOCK * FV_W)
        reduce_block(a, c, type, i, BLOCK, FV_W);
    for (; i < width; i += FV_W)
        reduce_block(a, c, type, i, 1, fv_lanes(width - i));
}

void FV_NAME(fv_k_groupnorm_reduce_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.in == FV_F32)
        reduce(a, c, FV_F32);
    else
        reduce(a, c, FV_BF16);
}

/* ---- rows ---- */

/* Normalises n vectors of channels from channel `at` on. */
FV_FN void apply_block(const fv_args *a, const fv_call *c, enum fv_type in, enum fv_type out,
                       uint32_t act, size_t at, int n, int rest)
{
    const float *mean = (const float *)c->p[FV_GN_STATE] + at;
    const float *var = mean + a->prob.dim[FV_ROW_C];
    const float *weight = (const float *)c->p[FV_GN_WEIGHT] + at;
    const float *bias = (const float *)c->p[FV_GN_BIAS] + at;
    fv_v from[BLOCK], scale[BLOCK], shift[BLOCK];
    FV_UNROLL
    for (int k = 0; k < n; k++) {
        const int lanes = k + 1 < n ? FV_W : rest;
        const fv_v v = fv_add(fv_load_n(var + k * FV_W, lanes), fv_set(a->f[0]));
        from[k] = fv_load_n(mean + k * FV_W, lanes);
        scale[k] = fv_div(fv_load_n(weight + k * FV_W, lanes), fv_sqrt(v));
        shift[k] = fv_load_n(bias + k * FV_W, lanes);
    }
    for (size_t r = 0; r < c->rows; r++) {
        const size_t x0 = r * a->ld[FV_GN_IN] + at, y0 = r * a->ld[FV_GN_OUT] + at;
        FV_UNROLL
        for (int k = 0; k < n; k++) {
            const int lanes = k + 1 < n ? FV_W : rest;
            const fv_v x = fv_row_load(c->p[FV_GN_IN], in, x0 + (size_t)k * FV_W, lanes);
            const fv_v y = fv_fma(fv_sub(x, from[k]), scale[k], shift[k]);
            fv_row_store(c->p[FV_GN_OUT], out, y0 + (size_t)k * FV_W, fv_activate(y, act), lanes);
        }
    }
}

FV_FN void apply(const fv_args *a, const fv_call *c, enum fv_type in, enum fv_type out,
                 uint32_t act)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    size_t i = 0;
    for (; i + BLOCK * FV_W <= width; i += BLOCK * FV_W)
        apply_block(a, c, in, out, act, i, BLOCK, FV_W);
    for (; i < width; i += FV_W)
        apply_block(a, c, in, out, act, i, 1, fv_lanes(width - i));
}

FV_FN void apply_types(const fv_args *a, const fv_call *c, uint32_t act)
{
    if (a->prob.in == FV_F32 && a->prob.out == FV_F32)
        apply(a, c, FV_F32, FV_F32, act);
    else if (a->prob.in == FV_F32)
        apply(a, c, FV_F32, FV_BF16, act);
    else
        apply(a, c, FV_BF16, a->prob.out, act);
}

void FV_NAME(fv_k_groupnorm_f32)(const fv_args *a, const fv_call *c)
{
    switch (a->prob.epi & FV_EPI_ACT) {
    case FV_EPI_RELU:
        apply_types(a, c, FV_EPI_RELU);
        break;
    case FV_EPI_SILU:
        apply_types(a, c, FV_EPI_SILU);
        break;
    default:
        apply_types(a, c, 0);
    }
}
