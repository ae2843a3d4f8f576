/* cl_registry.c: the list of OpenCL kernels. */
#include "cl/cl_kernels.h"

static const fv_kernel kernel_list[] = {
#define FV_CL_KERNEL FV_GPU_LIST_KERNEL
#include "cl/cl_kernels.inc"
#undef FV_CL_KERNEL
};

const fv_kernel *fv_cl_kernels(int *count)
{
    *count = (int)(sizeof kernel_list / sizeof *kernel_list);
    return kernel_list;
}
