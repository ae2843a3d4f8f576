/* gemm_grad.h: GEMM_GRAD_W by the tiles of a microkernel of GEMM. */
#ifndef FOVEA_SRC_TRAIN_GEMM_GRAD_H
#define FOVEA_SRC_TRAIN_GEMM_GRAD_H

#include "platform/cpu/gemm.h"

/* Runs GEMM_GRAD_W by a microkernel whose weights and packed activations have one type: F32 or, for
 * rows of BF16, also BF16. fv_gemm_grad_scratch: its scratch for calls of at most `rows` rows. */
void fv_gemm_grad_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c);
size_t fv_gemm_grad_scratch(const fv_gemm_microkernel *mk, const fv_problem *p, uint32_t rows);

#endif
