/* groupnorm_grad_tmpl.c: GROUPNORM_GRAD, GROUPNORM_GRAD_W and PICK_GRAD in vec.h's vector
 * functions. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "platform/cpu/vec/math.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

enum { BLOCK = 256 }; /* tokens in one sum */

/* ---- GROUPNORM_GRAD_W ---- */

/* Sums a vector of columns from i on. */
FV_FN void sum_columns(const fv_args *a, const fv_call *c, size_t i, int lanes)
{
    const size_t n = a->prob.dim[FV_ROW_C], tokens = a->prob.dim[FV_GRAD_TOKENS];
    const float *state = c->p[FV_GN_GRAD_W_STATE];
    const float *in = (const float *)c->p[FV_GN_GRAD_W_IN] + i;
    const float *dout = (const float *)c->p[FV_GN_GRAD_W_DOUT] + i;
    float *out = (float *)c->p[FV_GN_GRAD_W_OUT] + i;
    const fv_v mean = fv_load_n(state + i, lanes);
    const fv_v sigma = fv_sqrt(fv_add(fv_load_n(state + n + i, lanes), fv_set(a->f[0])));
    fv_v weight = fv_set(0.f), bias = fv_set(0.f);
    for (size_t t0 = 0; t0 < tokens; t0 += BLOCK) {
        const size_t end = tokens - t0 < BLOCK ? tokens : t0 + BLOCK;
        fv_v products = fv_set(0.f), sum = fv_set(0.f);
        for (size_t t = t0; t < end; t++) {
            const fv_v g = fv_load_n(dout + t * a->ld[FV_GN_GRAD_W_DOUT], lanes);
            const fv_v x = fv_sub(fv_load_n(in + t * a->ld[FV_GN_GRAD_W_IN], lanes), mean);
            products = fv_fma(g, x, products);
            sum = fv_add(sum, g);
        }
        weight = fv_add(weight, products);
        bias = fv_add(bias, sum);
    }
    fv_store_n(out, fv_div(weight, sigma), lanes);
    fv_store_n(out + n, bias, lanes);
}

void FV_NAME(fv_k_groupnorm_grad_w_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t i = 0; i < n; i += FV_W)
        sum_columns(a, c, i, fv_lanes(n - i));
}

/* ---- GROUPNORM_GRAD ---- */

/* Both means of every channel's group, in the scratch. */
static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return 2 * (size_t)p->dim[FV_ROW_C] * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_groupnorm_grad_f32) = {.scratch = scratch};

static void find_means(const fv_args *a, const fv_call *c, float *level, float *slope)
{
    const size_t width = a->prob.dim[FV_ROW_C], n = width / a->prob.dim[FV_GROUPNORM_GRAD_GROUPS];
    const float *weight = c->p[FV_GN_GRAD_WEIGHT], *sums = c->p[FV_GN_GRAD_SUMS];
    const float all = (float)n * (float)a->prob.dim[FV_DIM_ROWS];
    for (size_t first = 0; first < width; first += n) {
        float of_level = 0.f, of_slope = 0.f;
        for (size_t k = first; k < first + n; k++) {
            of_level += weight[k] * sums[width + k];
            of_slope += weight[k] * sums[k];
        }
        for (size_t k = first; k < first + n; k++) {
            level[k] = of_level / all;
            slope[k] = of_slope / all;
        }
    }
}

void FV_NAME(fv_k_groupnorm_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const float *state = c->p[FV_GN_GRAD_STATE], *weight = c->p[FV_GN_GRAD_WEIGHT];
    float *level = c->scratch, *slope = level + n;
    find_means(a, c, level, slope);
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_GN_GRAD_IN] + r * a->ld[FV_GN_GRAD_IN];
        const float *dout = (const float *)c->p[FV_GN_GRAD_DOUT] + r * a->ld[FV_GN_GRAD_DOUT];
        float *out = (float *)c->p[FV_GN_GRAD_OUT] + r * a->ld[FV_GN_GRAD_OUT];
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            const fv_v sigma = fv_sqrt(fv_add(fv_load_n(state + n + i, lanes), fv_set(a->f[0])));
            const fv_v x =
                fv_div(fv_sub(fv_load_n(in + i, lanes), fv_load_n(state + i, lanes)), sigma);
            const fv_v own = fv_fma(fv_load_n(weight + i, lanes), fv_load_n(dout + i, lanes),
                                    fv_neg(fv_load_n(level + i, lanes)));
            const fv_v back = fv_sub(own, fv_mul(x, fv_load_n(slope + i, lanes)));
            fv_store_n(out + i, fv_div(back, sigma), lanes);
        }
    }
}

/* ---- PICK_GRAD ---- */

static bool copied(const fv_args *a, const float *index, size_t token, size_t row)
{
    if (!index)
        return token == row;
    const float at = index[token * a->ld[FV_PICK_GRAD_INDEX]];
    return at >= 0.f && at < (float)a->prob.dim[FV_DIM_ROWS] && (size_t)at == row;
}

void FV_NAME(fv_k_pick_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C], tokens = a->prob.dim[FV_GRAD_TOKENS];
    const bool adds = a->prob.flags & FV_FLAG_ACCUMULATE;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PICK_GRAD_OUT] + r * a->ld[FV_PICK_GRAD_OUT];
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            fv_v all = adds ? fv_load_n(out + i, lanes) : fv_set(0.f);
            for (size_t t0 = 0; t0 < tokens; t0 += BLOCK) {
                const size_t end = tokens - t0 < BLOCK ? tokens : t0 + BLOCK;
                fv_v sum = fv_set(0.f);
                for (size_t t = t0; t < end; t++)
                    if (copied(a, c->p[FV_PICK_GRAD_INDEX], t, c->row0 + r))
                        sum = fv_add(sum, fv_load_n((const float *)c->p[FV_PICK_GRAD_DOUT] +
                                                        t * a->ld[FV_PICK_GRAD_DOUT] + i,
                                                    lanes));
                all = fv_add(all, sum);
            }
            fv_store_n(out + i, all, lanes);
        }
    }
}
