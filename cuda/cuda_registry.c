/* cuda_registry.c: the list of CUDA kernels. */
#include "cuda/cuda_kernels.h"

static const fv_kernel kernel_list[] = {
#define FV_CUDA_KERNEL FV_GPU_LIST_KERNEL
#include "cuda/cuda_kernels.inc"
#undef FV_CUDA_KERNEL
};

const fv_kernel *fv_cuda_kernels(int *count)
{
    *count = (int)(sizeof kernel_list / sizeof *kernel_list);
    return kernel_list;
}
