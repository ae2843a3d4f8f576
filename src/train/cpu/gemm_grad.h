/* gemm_grad.h: computes GEMM_GRAD_W with the tiles of a GEMM microkernel. */
#ifndef FOVEA_SRC_TRAIN_GEMM_GRAD_H
#define FOVEA_SRC_TRAIN_GEMM_GRAD_H

#include "platform/cpu/gemm.h"

/* Runs GEMM_GRAD_W with a microkernel whose weights and packed activations have one type: F32, or
 * for BF16 rows also BF16. fv_gemm_grad_scratch returns its scratch bytes for calls of at most
 * `rows` rows. */
void fv_gemm_grad_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c);
size_t fv_gemm_grad_scratch(const fv_gemm_microkernel *mk, const fv_problem *p, uint32_t rows);

#endif
