/* cl_kernels.h: declares the code and the hooks of every OpenCL kernel in cl_kernels.inc. */
#ifndef FOVEA_CL_CL_KERNELS_H
#define FOVEA_CL_CL_KERNELS_H

#include "gpu/gpu_code.h"

#define FV_CL_KERNEL FV_GPU_DECLARE_KERNEL
#include "cl/cl_kernels.inc"
#undef FV_CL_KERNEL

const fv_kernel *fv_cl_kernels(int *count);

#endif
