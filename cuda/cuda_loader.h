/* cuda_loader.h: opens NVIDIA's driver, NVRTC and cuBLASLt at run time. Nothing is linked and no
 * header of these libraries is needed, because most machines may not have them.
 *
 * Their interfaces are declared here as far as they are used, under their own names.
 */
#ifndef FOVEA_CUDA_CUDA_LOADER_H
#define FOVEA_CUDA_CUDA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A test includes NVIDIA's headers instead of these declarations, and compares the two. */
#ifndef FV_CUDA_HEADERS
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUjit_option;
typedef int CUstreamCaptureMode, CUstreamCaptureStatus;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    void *kern; /* in place of func */
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef int CUmemorytype, CUpointer_attribute, CUexternalMemoryHandleType;
typedef struct CUarray_st *CUarray;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st {
    CUexternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st {
    unsigned long long offset, size;
    unsigned flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

typedef int cublasStatus_t, cublasComputeType_t, cudaDataType_t;
typedef int cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque_st *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque_st *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque_st *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_st {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_st {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

#define FV_CUDA_NO_EGL /* header either */
enum {
#define FV_CUDA_CONSTANT(name, value) name = value,
#include "cuda/cuda_constants.inc"
#undef FV_CUDA_CONSTANT
};
#endif

#ifdef FV_CUDA_NO_EGL
typedef void *EGLImageKHR;
typedef struct CUeglFrame_st {
    union {
        CUarray pArray[3];
        void *pPitch[3];
    } frame;
    unsigned width, height, depth;
    unsigned pitch, planeCount, numChannels;
    int frameType, eglColorFormat, cuFormat; /* frameType 0: arrays, 1: addresses */
} CUeglFrame;
#endif

/* The driver's functions, each under its own name; optional ones are NULL if the library has
 * none. */
typedef struct fv_cuda_api {
#define FV_CUDA_CALL(name, symbol, parameters) CUresult(*name) parameters;
#define FV_CUDA_OPTION FV_CUDA_CALL
#include "cuda/cuda_calls.inc"
} fv_cuda_api;
extern fv_cuda_api fv_cuda;

typedef struct fv_nvrtc_api {
#define FV_NVRTC_CALL(name, symbol, parameters) nvrtcResult(*name) parameters;
#define FV_NVRTC_OPTION FV_NVRTC_CALL
#include "cuda/cuda_calls.inc"
} fv_nvrtc_api;

typedef struct fv_cublaslt_api {
#define FV_CUBLASLT_CALL(name, symbol, parameters) cublasStatus_t(*name) parameters;
#include "cuda/cuda_calls.inc"
} fv_cublaslt_api;

/* The number of the driver's devices. Finds and opens the driver when first called. FOVEA_CUDA
 * names the library to open instead. Thread-safe. */
int fv_cuda_devices(void);
/* One line of static text: which libraries were opened and what they lack; or why there is no
 * device, and a remedy. */
const char *fv_cuda_status(void);
/* 13000 for a driver of CUDA 13.0. */
int fv_cuda_version(void);
/* The compiler; NULL if there is none. FOVEA_NVRTC names the library to open instead. */
const fv_nvrtc_api *fv_cuda_nvrtc(void);
/* cuBLASLt; NULL if there is none. It is opened at the first call, because it takes 150 MB of
 * memory. FOVEA_CUBLASLT names the library to open instead; if FOVEA_CUDA names a driver, no other
 * library is opened. */
const fv_cublaslt_api *fv_cuda_cublaslt(void);
/* Whether the driver can replay recorded work, and change what its kernels read. */
bool fv_cuda_has_graphs(void);
bool fv_cuda_changes_graphs(void);

/* "CUDA_ERROR_LAUNCH_FAILED", or "error". */
const char *fv_cuda_error_name(CUresult error);
/* Whether an error is one after which every call in the device's context fails, in the whole
 * process. */
bool fv_cuda_is_fatal(CUresult error);
/* Makes a status of a failed call: ENOMEM for a lack of memory, else EDEVICE. The message names
 * `call` and `what`, which may be NULL. */
fovea_status fv_cuda_fail(CUresult error, const char *call, const char *what);

/* Structures that are passed to a library must have the layout of its headers. */
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, state) == 72,
               "the result of cublasLtMatmulAlgoGetHeuristic");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 16 * sizeof(size_t) &&
                   offsetof(CUDA_MEMCPY2D, srcPitch) == 6 * sizeof(size_t) &&
                   offsetof(CUDA_MEMCPY2D, dstPitch) == 13 * sizeof(size_t),
               "a copy of rows");
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72 &&
                   offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) == 40,
               "a kernel of a graph");
_Static_assert(sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC) == 104 &&
                   offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size) == 24 &&
                   sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC) == 88,
               "imported memory");
_Static_assert(sizeof(CUeglFrame) == 64 && offsetof(CUeglFrame, pitch) == 36 &&
                   offsetof(CUeglFrame, frameType) == 48,
               "a frame of EGL's");

/* Calls a function of CUDA; on failure returns from the calling function: FV_CUDA_TRY(what,
 * cuMemFree, (pointer)). */
#define FV_CUDA_TRY(what, call, arguments)                                                         \
    do {                                                                                           \
        CUresult error_ = fv_cuda.call arguments;                                                  \
        if (error_ != CUDA_SUCCESS)                                                                \
            return fv_cuda_fail(error_, #call, what);                                              \
    } while (0)

#endif
