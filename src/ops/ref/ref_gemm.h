/* ref_gemm.h: what the references of GEMM and CONV share: the activations of the epilogue,
 * and the weight as it is. */
#ifndef FOVEA_SRC_REF_GEMM_H
#define FOVEA_SRC_REF_GEMM_H

#include <math.h>

#include "base/half.h"
#include "ops/kernel.h"

/* Hooks for a weight that is kept as it is: rows of K numbers, those of the values before the
 * gates'. */
size_t fv_ref_rows_packed(const fv_problem *p, const fv_knobs *knobs);
void fv_ref_rows_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_knobs *knobs);

/* Hooks for a weight of I8: rows of K numbers as above, then a scale for each row. */
size_t fv_ref_i8_packed(const fv_problem *p, const fv_knobs *knobs);
void fv_ref_i8_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                    const fv_knobs *knobs);

/* Where in a packed weight of I8 the scales of its rows begin. */
size_t fv_ref_scales_at(const fv_problem *p);

/* Number k of row n of a weight that is packed so; of I8, without rotation. */
static inline float fv_ref_weight(const fv_problem *p, const void *w, uint32_t n, uint32_t k)
{
    const size_t at = (size_t)n * p->dim[FV_GEMM_K] + k;
    if (p->weight != FV_I8)
        return fv_value_get(w, p->weight, at);
    const char *scales = (const char *)w + fv_ref_scales_at(p);
    return (float)((const int8_t *)w)[at] * ((const float *)(const void *)scales)[n];
}

static inline double fv_ref_silu(double x)
{
    return x / (1 + exp(-x));
}

static inline double fv_ref_activate(double x, uint32_t epi)
{
    switch (epi & FV_EPI_ACT) {
    case FV_EPI_GELU:
        return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case FV_EPI_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case FV_EPI_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case FV_EPI_SILU:
        return fv_ref_silu(x);
    case FV_EPI_TANH:
        return tanh(x);
    case FV_EPI_RELU:
        return x < 0 ? 0 : x;
    case FV_EPI_SIGMOID:
        return 1 / (1 + exp(-x));
    case FV_EPI_SOFTPLUS:
        return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
    default:
        return x;
    }
}

#endif
