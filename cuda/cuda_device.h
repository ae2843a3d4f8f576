/* cuda_device.h: an open CUDA device, its steps and queues, shared by the backend's files.
 *
 * The device's primary context is used, shared with other users in the process. It is current on
 * the caller's thread only inside a call, between fv_cuda_enter and fv_cuda_leave. The functions of
 * the backend's table call these two; all other functions require that the context is current.
 */
#ifndef FOVEA_CUDA_CUDA_DEVICE_H
#define FOVEA_CUDA_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/cuda_loader.h"
#include "gpu/gpu_queue.h"
#include "gpu/gpu_store.h"
#include "gpu/gpu_wait.h"

/* What a device says about itself. */
typedef struct fv_cuda_limits {
    uint64_t memory;
    uint32_t local;        /* bytes of shared memory that a work-group may declare */
    uint32_t units, group; /* multiprocessors; most work-items in a work-group */
    uint32_t arch;         /* 87: sm_87 */
    bool integrated;       /* its memory is the host's */
    /* A screen waits for this GPU, and kernels that take seconds are ended. */
    bool watched;
} fv_cuda_limits;

struct fv_device {
    int index; /* in the driver's order */
    CUdevice device;
    CUcontext context;
    CUstream service; /* between frames */
    fv_cuda_limits limits;
    uint32_t features; /* enum fv_need */
    /* The target that NVRTC compiles for: "sm_87", "compute_90"; "" if it cannot. */
    char target[32];
    char compiler[FV_GPU_WORDS]; /* as in fovea_device_info */
    double dispatch; /* approximate limit of a dispatch in seconds; 0: dispatches are never cut */
    /* lost: a call failed, and every later one is refused. hung: the driver also did not return,
     * and objects that it may still use are not released. broken: the process's context is unusable
     * too. */
    _Atomic bool lost, hung, broken;
    fv_gpu_store store;
    pthread_mutex_t lock;
    fv_gpu_rates rates;    /* under `lock`, as the rest */
    cublasLtHandle_t blas; /* NULL until it is needed */
};

/* A bound step: its kernel, with all arguments set that do not change from call to call. */
typedef struct fv_cuda_bound {
    fv_gpu_step step;
    CUfunction function, pre_pass[FV_GPU_PASSES]; /* NULL: no more */
    CUdeviceptr table;
    void *own; /* fv_gpu_code.prepare's */
    /* As prelude.cl has them. */
    struct {
        CUdeviceptr base[FV_OPERANDS];
        uint32_t at[FV_OPERANDS][2];
        CUdeviceptr table;
        uint32_t row0, rows, first, groups;
        uint32_t dim[8], u[4];
        float f[4];
        uint32_t ring[2];
    } args;
    void *parameter[2 * FV_OPERANDS + 9]; /* pointers to the arguments, in the kernel's order */
} fv_cuda_bound;

/* cuda_event.c */
/* EDEVICE if the device has been lost. */
fovea_status fv_cuda_ready(const fv_device *d);
/* Makes the device's context current, unless the device is lost. After success fv_cuda_leave must
 * be called. */
fovea_status fv_cuda_enter(fv_device *d);
/* Does the same even for a lost device, whose objects must be freed. Returns whether
 * fv_cuda_leave must be called. If it fails, objects can still be freed, as each knows its
 * context. */
bool fv_cuda_enter_anyway(const fv_device *d);
void fv_cuda_leave(void);
/* Handles a failed call after which the device cannot be relied on: marks it lost, unless the
 * reason was a lack of memory. `what` may be NULL. */
fovea_status fv_cuda_lose(fv_device *d, CUresult error, const char *call, const char *what);
#define FV_CUDA_RUN(d, what, call, arguments)                                                      \
    do {                                                                                           \
        CUresult error_ = fv_cuda.call arguments;                                                  \
        if (error_ != CUDA_SUCCESS)                                                                \
            return fv_cuda_lose(d, error_, #call, what);                                           \
    } while (0)
/* fv_gpu_poll and fv_gpu_await for an event. */
enum fv_gpu_end fv_cuda_poll(CUevent e, double timeout);
fovea_status fv_cuda_await(fv_device *d, CUevent e, double timeout, double expect);
/* Waits for everything that was enqueued, at most as long as a transfer of `bytes` may take; after
 * that the device counts as hung. */
fovea_status fv_cuda_finish(fv_device *d, CUstream stream, uint64_t bytes);

/* cuda_info.c */
void fv_cuda_read_limits(CUdevice device, fv_cuda_limits *out);
void fv_cuda_device_name(int index, char *out, size_t size);
void fv_cuda_fill_info(fovea_device_info *out, int index, const fv_device *d);
/* The device's features (enum fv_need), except those of libraries. */
uint32_t fv_cuda_features(const fv_cuda_limits *l);
/* A text of everything that identifies device, driver and compiler, to be freed by the caller. */
fovea_status fv_cuda_identify(char **out, const fv_device *d);

/* cuda_cublaslt.c: cuBLASLt, NVIDIA's library of matrix products, opened at run time. */
void fv_cuda_cublaslt_close(fv_device *d); /* frees the device's cuBLASLt handle */

/* cuda_program.c */
extern const fv_gpu_compiler fv_cuda_compiler;
/* The target for which NVRTC can compile code that the device runs: "sm_87", "compute_80"; "":
 * none. */
void fv_cuda_target(const fv_cuda_limits *l, char *out, size_t size);
/* Whether this build has a settled step's program, compiled for this device. */
bool fv_cuda_is_embedded(const fv_device *d, const fv_launch *l);
/* Finds kernel `entry` of a step, with work-groups of `group`. *limit: the largest that the
 * compiled kernel allows. */
fovea_status fv_cuda_step_kernel(CUfunction *out, uint32_t *limit, fv_device *d, const fv_launch *l,
                                 const char *entry, uint32_t group);

/* cuda_bind.c */
/* Announces the steps' programs, so that the next fv_gpu_store_build compiles them. */
void fv_cuda_want(fv_device *d, const fv_launch *l, uint32_t count);
fovea_status fv_cuda_bind(fv_device *d, const fv_launch *l, fv_bound **out);
void fv_cuda_unbind(fv_device *d, fv_bound *b);

/* cuda_memory.c */
/* Allocates device memory of `size` bytes; *out is 0 on failure. */
fovea_status fv_cuda_alloc(CUdeviceptr *out, uint64_t size, const char *what);
/* Writes `size` bytes from host memory to device memory; zeros if src is NULL. */
fovea_status fv_cuda_write(fv_device *d, CUdeviceptr to, const void *src, uint64_t size);

/* cuda_rates.c */
enum { FV_CUDA_PROBE = 48 };
/* Build options of kernel FV_PROBE_<which> of probe.cl. */
void fv_cuda_probe_options(char out[FV_CUDA_PROBE], int which);
/* Approximate rates of the device, measured on the first call; a lower bound if they cannot be
 * measured. */
fv_gpu_rates fv_cuda_measure(fv_device *d);
/* Sets d->compiler: compiles a kernel that measures the rates, which the first plan needs anyway.
 */
void fv_cuda_try_compiler(fv_device *d);
/* Peak rates, measured now. */
fovea_status fv_cuda_rates_best(fv_device *d, fovea_rates *out);

/* cuda_queue.c */
extern const fv_gpu_interface fv_cuda_interface;
/* Records the sweeps for every frame that may be in flight, if the driver supports it. */
fovea_status fv_cuda_prepare(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most);
void *fv_cuda_read_event(const fv_queue *q, fv_fence f);
fovea_status fv_cuda_queue_trace(fv_queue *q, fv_trace *t);

#endif
