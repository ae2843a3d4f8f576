/* gpu_quantise.h: the host side of quantise.cl, for kernels that have it as a pre-pass. */
#ifndef FOVEA_GPU_GPU_QUANTISE_H
#define FOVEA_GPU_GPU_QUANTISE_H

#include "base/num.h"
#include "gpu/gpu_code.h"
#include "ops/contracts/product.h"
#include "ops/quantise.h"

/* As in quantise.cl: numbers in a run, and bytes of a row of k numbers. */
enum { FV_GPU_RUN = 64 };

static inline size_t fv_gpu_row_bytes(uint32_t k)
{
    return fv_round_up(k, FV_GPU_RUN);
}

static inline size_t fv_gpu_quantise_scratch(const fv_problem *p, const fv_knobs *knobs,
                                             uint32_t rows)
{
    (void)knobs;
    return rows * (fv_gpu_row_bytes(p->dim[FV_GEMM_K]) + sizeof(float));
}

static inline bool fv_gpu_is_quantised(const fv_problem *p)
{
    return p->weight == FV_I8 && p->acc == FV_I32;
}

/* Macros for a product that may be one of int8. */
static inline void fv_gpu_define_quantise(const fv_launch *l, fv_gpu_text *out)
{
    if (!fv_gpu_is_quantised(&l->args.prob))
        return;
    fv_gpu_define(out, "FV_I8", 1);
    fv_gpu_define(out, "FV_ROTATED", fv_int8_block(l->args.prob.dim[FV_GEMM_K]));
}

/* All runs of a row are in one work-group. */
static inline void fv_gpu_quantise_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_GEMM_K] + FV_GPU_RUN - 1) / FV_GPU_RUN,
                  p->group);
    count[1] = 1;
}
#define FV_GPU_QUANTISE                                                                            \
    {                                                                                              \
        "quantise", fv_gpu_quantise_shape                                                          \
    }

#endif
