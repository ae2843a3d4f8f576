/* cuda_cublaslt.h: cuBLASLt, NVIDIA's library of matrix products, opened at run time. */
#ifndef FOVEA_CUDA_CUDA_CUBLASLT_H
#define FOVEA_CUDA_CUDA_CUBLASLT_H

#include "cuda/cuda_device.h"

void fv_cuda_cublaslt_close(fv_device *d); /* what the device has of it */

#endif
