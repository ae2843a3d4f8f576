/* cuda_backend.c: the backend for CUDA devices: finds, opens and describes them, and manages their
 * memory. All calls from outside go through this file, which makes the device's context current for
 * their duration. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_import.h"
#include "cuda/cuda_kernels.h"
#include "platform/os/os_machine.h"

/* Makes the device's context current, calls, and returns the call's result. */
#define INSIDE(d, call)                                                                            \
    do {                                                                                           \
        FV_TRY(fv_cuda_enter(d));                                                                  \
        const fovea_status status_ = call;                                                         \
        fv_cuda_leave();                                                                           \
        return status_;                                                                            \
    } while (0)

/* Does the same for calls that are also made for a lost device: those that free memory or wait for
 * frames. */
#define INSIDE_ANYWAY(d, call)                                                                     \
    do {                                                                                           \
        const bool entered_ = fv_cuda_enter_anyway(d);                                             \
        call;                                                                                      \
        if (entered_)                                                                              \
            fv_cuda_leave();                                                                       \
    } while (0)

/* ---- found ---- */

static size_t probe(size_t index, fovea_device_info *out)
{
    const size_t n = (size_t)fv_cuda_devices();
    if (index < n)
        fv_cuda_fill_info(out, (int)index, NULL);
    return n;
}

/* ---- open and close ---- */

static void close_device(fv_device *d)
{
    const bool entered = fv_cuda_enter_anyway(d);
    const bool stuck = fv_gpu_store_is_stuck(&d->store);
    if (stuck)
        d->hung = true;
    fv_cuda_cublaslt_close(d);
    fv_gpu_store_empty(&d->store);
    if (d->service && !d->hung)
        fv_cuda.cuStreamDestroy(d->service);
    if (entered)
        fv_cuda_leave();
    if (d->context && !d->hung)
        fv_cuda.cuDevicePrimaryCtxRelease(d->device);
    fv_gpu_store_close(&d->store);
    pthread_mutex_destroy(&d->lock);
    if (!stuck) /* otherwise a thread inside the driver still uses the device */
        fv_mem_free(d);
}

static fovea_status start(fv_device *d, int index)
{
    CUcontext context;
    CUstream stream;
    FV_CUDA_TRY(NULL, cuDeviceGet, (&d->device, index));
    FV_CUDA_TRY(NULL, cuDevicePrimaryCtxRetain, (&context, d->device));
    d->context = context;
    FV_TRY(fv_cuda_enter(d));
    const CUresult error = fv_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    fv_cuda_leave();
    if (error != CUDA_SUCCESS)
        return fv_cuda_fail(error, "cuStreamCreate", NULL);
    d->service = stream;
    return FOVEA_OK;
}

static fovea_status set_up(fv_device *d, int index, const fovea_device_options *options)
{
    char *identity;
    FV_TRY(start(d, index));
    fv_cuda_read_limits(d->device, &d->limits);
    fv_cuda_target(&d->limits, d->target, sizeof d->target);
    d->features = fv_cuda_features(&d->limits);
    /* A screen may wait for the GPU, and always does on a board. Nothing waits for a card that only
     * computes. */
    const bool shown = d->limits.watched || d->limits.integrated;
    d->dispatch = options->max_dispatch_seconds > 0 ? options->max_dispatch_seconds
                  : shown                           ? 0.02
                                                    : 0;
    FV_TRY(fv_cuda_identify(&identity, d));
    FV_TRY(fv_gpu_store_open(&d->store, d, &fv_cuda_compiler, identity, options));
    FV_TRY(fv_cuda_enter(d));
    fv_cuda_try_compiler(d);
    fv_cuda_leave();
    return FOVEA_OK;
}

static fovea_status open_device(fv_device **out, const char *which,
                                const fovea_device_options *options)
{
    const int index = fv_gpu_find(which, fv_cuda_devices(), fv_cuda_device_name);
    if (index < 0)
        return fv_fail(FOVEA_ENODEV, "device 'cuda:%s' does not exist (%s)", which,
                       fv_cuda_status());
    fv_device *d;
    FV_TRY(FV_MEM_NEW(&d, FV_MEM_DEVICE, "the device"));
    d->index = index;
    pthread_mutex_init(&d->lock, NULL);
    const fovea_status status = set_up(d, index, options);
    if (status == FOVEA_OK)
        *out = d;
    else
        close_device(d);
    return status;
}

static void describe_device(const fv_device *d, fovea_device_info *out)
{
    fv_cuda_fill_info(out, d->index, d);
    memcpy(out->compiler, d->compiler, sizeof out->compiler);
    fv_gpu_store_skipped(&d->store, out->skipped, sizeof out->skipped);
}

static void limits(const fv_device *d, fv_limits *out)
{
    *out = (fv_limits){.threads = 1,
                       .throughput = true,
                       .partials = fv_gpu_partials(d->limits.units),
                       /* Work-groups of lattn.cu. */
                       .at_once = d->limits.arch >= 80 ? 3 * d->limits.units : 0,
                       .frames = FV_GPU_FRAMES,
                       .largest = d->limits.memory,
                       .rows = UINT32_MAX,
                       .int8 = true};
}

/* ---- memory ---- */

/* Memory that is still free. On a board, the driver does not count the kernel's file caches as
 * free, although the kernel would drop them. */
static uint64_t free_memory(fv_device *d)
{
    size_t free = 0, total = 0;
    if (d->limits.integrated)
        return fv_gpu_share(fv_machine_free(), true);
    if (fv_cuda_enter(d) != FOVEA_OK)
        return UINT64_MAX;
    const CUresult error = fv_cuda.cuMemGetInfo(&free, &total);
    fv_cuda_leave();
    return error == CUDA_SUCCESS ? fv_gpu_share(free, false) : UINT64_MAX;
}

static fovea_status alloc(fv_device *d, uint64_t size, const char *what, fv_mem *out)
{
    CUdeviceptr pointer;
    FV_TRY(fv_cuda_enter(d));
    const fovea_status status = fv_cuda_alloc(&pointer, size, what);
    fv_cuda_leave();
    FV_TRY(status);
    *out = (fv_mem){.size = size, .handle = pointer};
    return FOVEA_OK;
}

static void release_memory(fv_device *d, fv_mem *m)
{
    if (m->handle && !d->hung)
        INSIDE_ANYWAY(d, fv_cuda.cuMemFree(m->handle));
    *m = (fv_mem){.host = NULL};
}

static fovea_status write(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    INSIDE(d, fv_cuda_write(d, m->handle, src, size));
}

static fovea_status read_now(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
{
    if (size == 0)
        return FOVEA_OK;
    FV_CUDA_RUN(d, "a buffer", cuMemcpyDtoHAsync, (dst, m->handle, (size_t)size, d->service));
    return fv_cuda_finish(d, d->service, size);
}

static fovea_status read(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
{
    INSIDE(d, read_now(d, m, dst, size));
}

static fovea_status import(fv_device *d, const fv_import_request *r, fv_import **out)
{
    INSIDE(d, fv_cuda_import(d, r, out));
}

static void forget(fv_device *d, fv_import *m)
{
    INSIDE_ANYWAY(d, fv_cuda_forget(d, m));
}

/* ---- kernels ---- */

static const fv_kernel *kernels(fv_device *d, int *count, uint32_t *features)
{
    fv_cuda_limits first;
    CUdevice device;
    *features = 0;
    if (d) {
        *features = d->features;
    } else if (fv_cuda_devices() && fv_cuda.cuDeviceGet(&device, 0) == CUDA_SUCCESS) {
        fv_cuda_read_limits(device, &first);
        *features = fv_cuda_features(&first);
    }
    return fv_cuda_kernels(count);
}

static const char *level(uint32_t needs)
{
    return needs & FV_NEED_CUDA_BLASLT    ? "cublaslt"
           : needs & FV_NEED_CUDA_MMA     ? "cuda mma"
           : needs & FV_NEED_CUDA_MMA_F16 ? "cuda mma f16"
                                          : "cuda";
}

static void compile(fv_device *d, const fv_launch *l, uint32_t count)
{
    if (fv_cuda_enter(d) != FOVEA_OK)
        return;
    fv_cuda_want(d, l, count);
    fv_cuda_leave();
    fv_gpu_store_build(&d->store); /* its threads make the context current, this thread included */
}

static fovea_status bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    INSIDE(d, fv_cuda_bind(d, l, out));
}

static void unbind(fv_device *d, fv_bound *b)
{
    INSIDE_ANYWAY(d, fv_cuda_unbind(d, b));
}

/* ---- frames ---- */

static fovea_status queue_open(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                               uint32_t phases, fv_queue **out)
{
    (void)scratch, (void)phases;
    INSIDE(d, fv_gpu_queue_open(out, &fv_cuda_interface, d, slot, slots));
}

static void queue_close(fv_queue *q)
{
    if (q)
        INSIDE_ANYWAY(q->device, fv_gpu_queue_close(q));
}

static fovea_status prepare_frames(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most)
{
    INSIDE(q->device, fv_cuda_prepare(q, s, count, most));
}

static fovea_status submit(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out)
{
    INSIDE(q->device, fv_gpu_submit(q, s, count, most, out));
}

static fovea_status wait(fv_queue *q, fv_fence f, double timeout, double *seconds)
{
    fovea_status status;
    INSIDE_ANYWAY(q->device, status = fv_gpu_wait(q, f, timeout, seconds));
    return status;
}

static fovea_status trace(fv_queue *q, fv_trace *t)
{
    INSIDE(q->device, fv_cuda_queue_trace(q, t));
}

static fovea_status rates(fv_device *d, fovea_rates *out)
{
    INSIDE(d, fv_cuda_rates_best(d, out));
}

const fv_backend fv_backend_cuda = {
    .name = "cuda",
    .abi = FV_BACKEND_ABI,
    .probe = probe,
    .status = fv_cuda_status,
    .open = open_device,
    .close = close_device,
    .describe = describe_device,
    .limits = limits,
    .free_memory = free_memory,
    .alloc = alloc,
    .release = release_memory,
    .write = write,
    .read = read,
    .import = import,
    .forget = forget,
    .kernels = kernels,
    .level = level,
    .compile = compile,
    .bind = bind,
    .unbind = unbind,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .prepare = prepare_frames,
    .upload = fv_gpu_upload,
    .upload_from = fv_gpu_upload_from,
    .submit = submit,
    .download = fv_gpu_download,
    .wait = wait,
    .read_event = fv_cuda_read_event,
    .trace = trace,
    .rates = rates,
};
