/* gpu_gemm_half.h: code that the launch codes of gemm_half.cl share: the scaled weight, and the
 * pre-passes that scale rows. */
#ifndef FOVEA_GPU_GPU_GEMM_HALF_H
#define FOVEA_GPU_GPU_GEMM_HALF_H

#include "gpu/kernels/gpu_gemm.h"

/* Positions of numbers in a panel of the weight, where two steps are stored together. */
typedef struct fv_gpu_half_order {
    uint32_t (*place)(uint32_t column); /* position of a column's number of the first step */
    uint32_t second;                    /* distance from there to its number of the second step */
} fv_gpu_half_order;

bool fv_gpu_half_applies(const fv_problem *p);
size_t fv_gpu_half_packed(const fv_problem *p, const fv_knobs *knobs);
/* As fv_kernel_hooks has it. */
void fv_gpu_half_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_gpu_half_order *order);
size_t fv_gpu_half_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows);
/* Cost of products at `rate`, and of their pre-passes. */
double fv_gpu_half_cost(const fv_problem *p, double rate);

void fv_gpu_half_shape_scales(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_half_shape_panels(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
uint32_t fv_gpu_half_local_scales(const fv_launch *l, uint32_t group);

/* Members of an fv_gpu_code. Without the option, Intel's compiler rounds each product to
 * float16. */
#define FV_GPU_HALF_CODE                                                                           \
    .program = "gemm", .entry = "product", .macros = " -cl-mad-enable",                            \
    .pre_pass = {{"row_scales", fv_gpu_half_shape_scales},                                         \
                 {"row_panels", fv_gpu_half_shape_panels}},                                        \
    .align = 64

#endif
