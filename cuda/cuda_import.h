/* cuda_import.h: imports the caller's memory, from which the device reads or copies pictures. */
#ifndef FOVEA_CUDA_CUDA_IMPORT_H
#define FOVEA_CUDA_CUDA_IMPORT_H

#include "cuda/cuda_device.h"

/* As fv_backend has them. */
fovea_status fv_cuda_import(fv_device *d, const fv_import_request *r, fv_import **out);
void fv_cuda_forget(fv_device *d, fv_import *m);

/* Adds the kinds of memory that the driver and its libraries may be able to import. */
void fv_cuda_list_imports(char list[FV_GPU_WORDS]);

/* Where kernels read an input that was imported with FOVEA_TRANSFER_NONE. */
typedef struct fv_cuda_place {
    CUdeviceptr at;
    uint64_t stride;
} fv_cuda_place;
fv_cuda_place fv_cuda_imported(const fv_gpu_external *e);

/* Enqueues the copy of an input that was imported with FOVEA_TRANSFER_DEVICE into the frame's own
 * buffer: `rows` rows of `row` bytes. */
fovea_status fv_cuda_copy_import(fv_device *d, const fv_gpu_external *e, uint64_t row,
                                 uint32_t rows, CUstream stream);

#endif
