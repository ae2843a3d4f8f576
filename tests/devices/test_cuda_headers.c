/* test_cuda_headers.c: tests that the declarations of cuda_loader.h match NVIDIA's headers.
 * Compiling is the test. */
#define FV_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>
#if __has_include(<EGL/egl.h>)
#include <cudaEGL.h>
#else
#define FV_CUDA_NO_EGL
#define FV_CUDA_EGL(name, symbol, parameters)
#endif

/* Newer headers only declare the newer functions; drivers have both. */
#if CUDA_VERSION >= 13000
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph, const CUgraphNode **last,
                                           size_t *count);
#endif

#include "cuda/cuda_loader.h"

#define FV_CUDA_CONSTANT(name, value) _Static_assert(name == value, #name);
#include "cuda/cuda_constants.inc"
#undef FV_CUDA_CONSTANT

#define SAME(api, name)                                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(api.name)), #name);
static fv_cuda_api cuda;
static fv_nvrtc_api nvrtc;
static fv_cublaslt_api cublaslt;
#define FV_CUDA_CALL(name, symbol, parameters) SAME(cuda, name)
#define FV_CUDA_OPTION FV_CUDA_CALL
#define FV_NVRTC_CALL(name, symbol, parameters) SAME(nvrtc, name)
#define FV_NVRTC_OPTION FV_NVRTC_CALL
#define FV_CUBLASLT_CALL(name, symbol, parameters) SAME(cublaslt, name)
#include "cuda/cuda_calls.inc"

int main(void)
{
    (void)cuda, (void)nvrtc, (void)cublaslt;
    return 0;
}
