/* cuda_kernels.h: declares the code and the hooks of every CUDA kernel in cuda_kernels.inc. */
#ifndef FOVEA_CUDA_CUDA_KERNELS_H
#define FOVEA_CUDA_CUDA_KERNELS_H

#include "gpu/gpu_code.h"

#define FV_CUDA_KERNEL FV_GPU_DECLARE_KERNEL
#include "cuda/cuda_kernels.inc"
#undef FV_CUDA_KERNEL

const fv_kernel *fv_cuda_kernels(int *count);

#endif
