/* ref_gemm.h: code that the references of GEMM and CONV share: activations of the epilogue, and
 * packing that keeps the weight's layout. */
#ifndef FOVEA_SRC_REF_GEMM_H
#define FOVEA_SRC_REF_GEMM_H

#include "act/activations.h"
#include "base/half.h"
#include "ops/contracts/product.h"
#include "ops/kernel.h"

/* Hooks for a weight whose layout is kept: rows of K numbers, with the value rows before the gate
 * rows. */
size_t fv_ref_rows_packed(const fv_problem *p, const fv_knobs *knobs);
void fv_ref_rows_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_knobs *knobs);

/* Hooks for an I8 weight: rows of K numbers in the same order, then a scale for each row. */
size_t fv_ref_i8_packed(const fv_problem *p, const fv_knobs *knobs);
void fv_ref_i8_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                    const fv_knobs *knobs);

/* Returns the byte offset of the rows' scales in a packed I8 weight. */
size_t fv_ref_scales_at(const fv_problem *p);

/* Returns element k of row n of a weight that is packed by these hooks; with I8, the rotation is
 * not undone. */
static inline float fv_ref_weight(const fv_problem *p, const void *w, uint32_t n, uint32_t k)
{
    const size_t at = (size_t)n * p->dim[FV_GEMM_K] + k;
    if (p->weight != FV_I8)
        return fv_value_get(w, p->weight, at);
    const char *scales = (const char *)w + fv_ref_scales_at(p);
    return (float)((const int8_t *)w)[at] * ((const float *)(const void *)scales)[n];
}

static inline double fv_ref_activate(double x, uint32_t epi)
{
    switch (epi & FV_EPI_ACT) {
#define FV_ACTIVATION(NAME, name, bit, value, slope)                                               \
    case FV_EPI_##NAME:                                                                            \
        return value;
#include "act/activations.inc"
#undef FV_ACTIVATION
    default:
        return x;
    }
}

#endif
