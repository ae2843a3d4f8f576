/* cl_event.c: waits for a device without hanging along with it, and gives up devices that hang. */
#include "cl/cl_device.h"

static const char lost_text[] = "the device was lost; close it and open it again";

fovea_status fv_cl_ready(const fv_device *d)
{
    return d->lost ? fv_fail(FOVEA_EDEVICE, "%s", lost_text) : FOVEA_OK;
}

fovea_status fv_cl_lose(fv_device *d, cl_int error, const char *call, const char *what)
{
    if (fv_cl_is_memory(error, call))
        return fv_cl_fail(error, call, what);
    d->lost = true;
    return fv_fail(FOVEA_EDEVICE, "%s%s%s: %s (%d): %s", call, what ? " " : "", what ? what : "",
                   fv_cl_error_name(error), (int)error, lost_text);
}

/* ---- waiting ---- */

static enum fv_gpu_end query(void *event, int *error)
{
    cl_int state = CL_QUEUED;
    *error =
        fv_cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (*error != CL_SUCCESS)
        return FV_GPU_UNKNOWN;
    *error = state < 0 ? state : CL_SUCCESS;
    return state == CL_COMPLETE ? FV_GPU_DONE : state < 0 ? FV_GPU_FAILED : FV_GPU_LATE;
}

static fovea_status lose(fv_device *d, int error, bool unknown)
{
    return fv_cl_lose(d, error, unknown ? "clGetEventInfo" : "a command", NULL);
}

static const fv_gpu_events events = {query, fv_cl_ready, lose};

enum fv_gpu_end fv_cl_poll(cl_event e, double timeout, int *error)
{
    return fv_gpu_poll(&events, e, timeout, 0, NULL, error);
}

fovea_status fv_cl_await(fv_device *d, cl_event e, double timeout, double expect)
{
    return fv_gpu_await(&events, d, e, timeout, expect, &d->lost);
}

fovea_status fv_cl_finish_event(fv_device *d, cl_event e, uint64_t bytes)
{
    const double bound = 10 + (double)bytes / 20e6;
    int error;
    fovea_status status = fv_cl_await(d, e, bound, 0);
    /* The state of the command could not be asked about. Callers will free what it uses, so make
     * sure that it is over. */
    if (status != FOVEA_OK && status != FOVEA_ETIMEOUT &&
        fv_cl_poll(e, bound, &error) == FV_GPU_LATE)
        status = FOVEA_ETIMEOUT;
    if (status == FOVEA_ETIMEOUT) {
        d->lost = d->hung = true;
        return fv_fail(FOVEA_EDEVICE, "a transfer did not finish within %.0f s: %s", bound,
                       lost_text);
    }
    fv_cl.clReleaseEvent(e);
    return status;
}

fovea_status fv_cl_finish(fv_device *d, cl_command_queue queue, cl_event e, uint64_t bytes)
{
    const cl_int error = fv_cl.clFlush(queue);
    FV_TRY(fv_cl_finish_event(d, e, bytes));
    return error == CL_SUCCESS ? FOVEA_OK : fv_cl_lose(d, error, "clFlush", NULL);
}
