/* log_sum.h: softmax of a row and its cross-entropy, in vec.h's vector functions. */
#ifndef FOVEA_PLATFORM_VEC_LOG_SUM_H
#define FOVEA_PLATFORM_VEC_LOG_SUM_H

#include "platform/cpu/vec/math.h"

FV_FN float fv_row_max(const float *x, size_t n)
{
    fv_v max = fv_set(-INFINITY);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        max = fv_max(max, fv_blend_n(fv_load_n(x + i, lanes), max, lanes));
    }
    return fv_hmax(max);
}

/* Returns sum_i exp(x[i] - max). Unless `out` is NULL, it gets the exponentials; it may be x. */
FV_FN float fv_row_exp(float *out, const float *x, size_t n, float max)
{
    fv_v sum = fv_set(0.f);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v e = fv_exp_neg(fv_sub(fv_load_n(x + i, lanes), fv_set(max)));
        if (out)
            fv_store_n(out + i, e, lanes);
        sum = fv_add(sum, fv_first_n(e, lanes));
    }
    return fv_hsum(sum);
}

/* Returns log sum_i exp(x[i]) - x[class]. */
FV_FN float fv_log_sum_of(const float *x, size_t n, size_t class)
{
    const float max = fv_row_max(x, n);
    return logf(fv_row_exp(NULL, x, n, max)) + (max - x[class]);
}

/* Sets out[i] = weight (softmax(x)[i] - (i == class)). `out` may be x. */
FV_FN void fv_softmax_slope(float *out, const float *x, size_t n, size_t class, float weight)
{
    const float max = fv_row_max(x, n), sum = fv_row_exp(out, x, n, max);
    const fv_v factor = fv_set(weight / sum);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(out + i, fv_mul(fv_load_n(out + i, lanes), factor), lanes);
    }
    out[class] -= weight;
}

#endif
