/* cuda_memory.c: allocates, frees and writes memory of a device. */
#include "cuda/cuda_device.h"

fovea_status fv_cuda_alloc(CUdeviceptr *out, uint64_t size, const char *what)
{
    *out = 0;
    FV_CUDA_TRY(what, cuMemAlloc, (out, (size_t)(size ? size : 1)));
    return FOVEA_OK;
}

fovea_status fv_cuda_write(fv_device *d, CUdeviceptr to, const void *src, uint64_t size)
{
    if (size == 0)
        return FOVEA_OK;
    if (src)
        FV_CUDA_RUN(d, "a buffer", cuMemcpyHtoDAsync, (to, src, (size_t)size, d->service));
    else
        FV_CUDA_RUN(d, "a buffer", cuMemsetD8Async, (to, 0, (size_t)size, d->service));
    return fv_cuda_finish(d, d->service, size);
}
