/* cuda_event.c: makes contexts current, waits for a device without hanging along with it, and gives
 * up devices that hang. */
#include "cuda/cuda_device.h"

static const char lost_text[] = "the device was lost; close it and open it again";
/* The context is shared by the whole process, and exists as long as anyone uses it. */
static const char broken_text[] = "the device was lost; close everything that uses it in this "
                                  "process and open it again, or restart the process";

fovea_status fv_cuda_ready(const fv_device *d)
{
    return d->lost ? fv_fail(FOVEA_EDEVICE, "%s", d->broken ? broken_text : lost_text) : FOVEA_OK;
}

/* The calling thread's state before fv_cuda_enter. While another library in the process (PyTorch,
 * for example) captures a graph, our driver calls would fail and invalidate its capture; the
 * capture mode of the thread is changed to allow them. */
static _Thread_local struct {
    CUstreamCaptureMode mode;
    bool known;
} callers;

static void become_independent(void)
{
    callers.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    callers.known = fv_cuda.cuThreadExchangeStreamCaptureMode(&callers.mode) == CUDA_SUCCESS;
}

fovea_status fv_cuda_enter(fv_device *d)
{
    FV_TRY(fv_cuda_ready(d));
    FV_CUDA_RUN(d, NULL, cuCtxPushCurrent, (d->context));
    become_independent();
    return FOVEA_OK;
}

bool fv_cuda_enter_anyway(const fv_device *d)
{
    if (d->hung || !d->context || fv_cuda.cuCtxPushCurrent(d->context) != CUDA_SUCCESS)
        return false;
    become_independent();
    return true;
}

void fv_cuda_leave(void)
{
    CUcontext ours;
    if (callers.known)
        fv_cuda.cuThreadExchangeStreamCaptureMode(&callers.mode);
    fv_cuda.cuCtxPopCurrent(&ours);
}

fovea_status fv_cuda_lose(fv_device *d, CUresult error, const char *call, const char *what)
{
    if (error == CUDA_ERROR_OUT_OF_MEMORY)
        return fv_cuda_fail(error, call, what);
    d->broken = d->broken || fv_cuda_is_fatal(error);
    d->lost = true;
    return fv_fail(FOVEA_EDEVICE, "%s%s%s: %s (%d): %s", call, what ? " " : "", what ? what : "",
                   fv_cuda_error_name(error), error, d->broken ? broken_text : lost_text);
}

/* ---- waiting ---- */

static enum fv_gpu_end query(void *event, int *error)
{
    const CUresult result = fv_cuda.cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY)
        return FV_GPU_LATE;
    *error = (int)result;
    return result == CUDA_SUCCESS ? FV_GPU_DONE : FV_GPU_FAILED;
}

static fovea_status lose(fv_device *d, int error, bool unknown)
{
    (void)unknown; /* a query also reports errors of earlier work */
    return fv_cuda_lose(d, (CUresult)error, "cuEventQuery", NULL);
}

static const fv_gpu_events events = {query, fv_cuda_ready, lose};

enum fv_gpu_end fv_cuda_poll(CUevent e, double timeout)
{
    int error;
    return fv_gpu_poll(&events, e, timeout, 0, NULL, &error);
}

fovea_status fv_cuda_await(fv_device *d, CUevent e, double timeout, double expect)
{
    return fv_gpu_await(&events, d, e, timeout, expect, &d->lost);
}

static fovea_status await_bounded(fv_device *d, CUevent e, double bound)
{
    const fovea_status status = fv_cuda_await(d, e, bound, 0);
    if (status != FOVEA_ETIMEOUT)
        return status;
    d->lost = d->hung = true;
    return fv_fail(FOVEA_EDEVICE, "a transfer did not finish within %.0f s: %s", bound, lost_text);
}

fovea_status fv_cuda_finish(fv_device *d, CUstream stream, uint64_t bytes)
{
    CUevent event;
    FV_CUDA_RUN(d, NULL, cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING));
    const CUresult error = fv_cuda.cuEventRecord(event, stream);
    const fovea_status status = error == CUDA_SUCCESS
                                    ? await_bounded(d, event, 10 + (double)bytes / 20e6)
                                    : fv_cuda_lose(d, error, "cuEventRecord", NULL);
    if (!d->hung)
        fv_cuda.cuEventDestroy(event);
    return status;
}
