/* layernorm_grad_tmpl.c: LAYERNORM_GRAD and LAYERNORM_GRAD_W in vec.h's vector functions. */
#include <math.h>

#include "platform/cpu/vec/vec.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

enum {
    BLOCK = 256, /* tokens in one sum */
    RUN = 16     /* tokens whose statistics are kept at a time */
};

typedef struct stats {
    float mean, scale; /* scale: 1 / sqrt(var + eps) */
} stats;

FV_FN fv_v centred(const float *x, size_t i, size_t n, float mean)
{
    const int lanes = fv_lanes(n - i);
    return fv_first_n(fv_sub(fv_load_n(x + i, lanes), fv_set(mean)), lanes);
}

/* Computes mean and variance in two passes: the variance is the mean square of the differences from
 * the mean. Two sums at a time hide the latency of additions. */
FV_FN stats stats_of(const float *x, size_t n, float eps)
{
    fv_v sum[2] = {fv_set(0.f), fv_set(0.f)}, square[2] = {fv_set(0.f), fv_set(0.f)};
    for (size_t i = 0, k = 0; i < n; i += FV_W, k ^= 1)
        sum[k] = fv_add(sum[k], fv_load_n(x + i, fv_lanes(n - i)));
    const float mean = fv_hsum(fv_add(sum[0], sum[1])) / (float)n;
    for (size_t i = 0, k = 0; i < n; i += FV_W, k ^= 1) {
        const fv_v d = centred(x, i, n, mean);
        square[k] = fv_fma(d, d, square[k]);
    }
    return (stats){mean, 1.f / sqrtf(fv_hsum(fv_add(square[0], square[1])) / (float)n + eps)};
}

FV_FN void grad_row(float *out, const float *res, const float *in, const float *weight,
                    const float *dout, size_t n, float eps)
{
    const stats s = stats_of(in, n, eps);
    fv_v flat = fv_set(0.f), along = fv_set(0.f);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v g = fv_mul(fv_load_n(weight + i, lanes), fv_load_n(dout + i, lanes));
        const fv_v x = fv_mul(centred(in, i, n, s.mean), fv_set(s.scale));
        flat = fv_add(flat, g);
        along = fv_fma(g, x, along);
    }
    const fv_v flat_mean = fv_set(fv_hsum(flat) / (float)n);
    const fv_v along_mean = fv_set(-fv_hsum(along) / (float)n);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v g = fv_mul(fv_load_n(weight + i, lanes), fv_load_n(dout + i, lanes));
        const fv_v x = fv_mul(centred(in, i, n, s.mean), fv_set(s.scale));
        const fv_v d = fv_fma(x, along_mean, fv_sub(g, flat_mean));
        const fv_v before = res ? fv_load_n(res + i, lanes) : fv_set(0.f);
        fv_store_n(out + i, fv_fma(d, fv_set(s.scale), before), lanes);
    }
}

void FV_NAME(fv_k_layernorm_grad_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_LN_GRAD_IN] + r * a->ld[FV_LN_GRAD_IN];
        const float *dout = (const float *)c->p[FV_LN_GRAD_DOUT] + r * a->ld[FV_LN_GRAD_DOUT];
        const float *res = c->p[FV_LN_GRAD_RES];
        float *out = (float *)c->p[FV_LN_GRAD_OUT] + r * a->ld[FV_LN_GRAD_OUT];
        grad_row(out, res ? res + r * a->ld[FV_LN_GRAD_RES] : NULL, in, c->p[FV_LN_GRAD_WEIGHT],
                 dout, a->prob.dim[FV_ROW_C], a->f[0]);
    }
}

/* Adds the terms of `count` tokens from t on to the sums of one vector of columns. */
FV_FN void add_tokens(const fv_args *a, const fv_call *c, const stats *s, size_t t, size_t count,
                      size_t col, int lanes, fv_v sum[2])
{
    const size_t ld_in = a->ld[FV_LN_GRAD_W_IN], ld_dout = a->ld[FV_LN_GRAD_W_DOUT];
    const float *in = (const float *)c->p[FV_LN_GRAD_W_IN] + t * ld_in + col;
    const float *dout = (const float *)c->p[FV_LN_GRAD_W_DOUT] + t * ld_dout + col;
    for (size_t k = 0; k < count; k++) {
        const fv_v g = fv_load_n(dout + k * ld_dout, lanes);
        const fv_v d = fv_sub(fv_load_n(in + k * ld_in, lanes), fv_set(s[k].mean));
        sum[0] = fv_fma(g, fv_mul(d, fv_set(s[k].scale)), sum[0]);
        sum[1] = fv_add(sum[1], g);
    }
}

/* Adds tokens [t0, t1) of the call's columns to both rows of sums in the scratch. */
static void sum_block(const fv_args *a, const fv_call *c, size_t t0, size_t t1, float *sums)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t i = 0; i < 2 * (size_t)c->cols; i++)
        sums[i] = 0.f;
    for (size_t t = t0; t < t1; t += RUN) {
        const size_t count = t1 - t < RUN ? t1 - t : RUN;
        stats s[RUN];
        for (size_t k = 0; k < count; k++)
            s[k] = stats_of((const float *)c->p[FV_LN_GRAD_W_IN] + (t + k) * a->ld[FV_LN_GRAD_W_IN],
                            n, a->f[0]);
        for (size_t i = 0; i < c->cols; i += FV_W) {
            const int lanes = fv_lanes(c->cols - i);
            fv_v sum[2] = {fv_load_n(sums + i, lanes), fv_load_n(sums + c->cols + i, lanes)};
            if (lanes == FV_W)
                add_tokens(a, c, s, t, count, c->col0 + i, FV_W, sum);
            else
                add_tokens(a, c, s, t, count, c->col0 + i, lanes, sum);
            fv_store_n(sums + i, sum[0], lanes);
            fv_store_n(sums + c->cols + i, sum[1], lanes);
        }
    }
}

void FV_NAME(fv_k_layernorm_grad_w_f32)(const fv_args *a, const fv_call *c)
{
    const size_t tokens = a->prob.dim[FV_GRAD_TOKENS];
    float *sums = c->scratch;
    for (size_t t = 0; t < tokens; t += BLOCK) {
        sum_block(a, c, t, tokens - t < BLOCK ? tokens : t + BLOCK, sums);
        const bool adds = t || a->prob.flags & FV_FLAG_ACCUMULATE;
        for (size_t r = 0; r < c->rows; r++) {
            float *out = (float *)c->p[FV_LN_GRAD_W_OUT] + r * a->ld[FV_LN_GRAD_W_OUT] + c->col0;
            const float *sum = sums + (c->row0 + r) * c->cols;
            for (size_t i = 0; i < c->cols; i++)
                out[i] = adds ? out[i] + sum[i] : sum[i];
        }
    }
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return 2 * p->dim[FV_ROW_C] * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_layernorm_grad_w_f32) = {.scratch = scratch};
