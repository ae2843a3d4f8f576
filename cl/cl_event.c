/* cl_event.c: waiting for a device without hanging with it, and giving it up;
 * queues and buffers. */
#include <string.h>

#include "cl/cl_device.h"
#include "platform/os/os_machine.h"

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

enum fv_cl_end fv_cl_poll(cl_event e, double timeout, double expect, const _Atomic bool *stop,
                          cl_int *error)
{
    const double begin = fv_machine_seconds();
    for (double pause = 0;;) {
        cl_int state = CL_QUEUED;
        *error =
            fv_cl.clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (*error != CL_SUCCESS)
            return FV_CL_UNKNOWN;
        if (state == CL_COMPLETE)
            return FV_CL_DONE;
        *error = state < 0 ? state : CL_SUCCESS;
        if (state < 0 || (stop && *stop))
            return FV_CL_FAILED;
        const double passed = fv_machine_seconds() - begin;
        if (timeout >= 0 && passed >= timeout)
            return FV_CL_LATE;
        fv_gpu_nap(passed, expect, timeout, &pause);
    }
}

fovea_status fv_cl_await(fv_device *d, cl_event e, double timeout, double expect)
{
    cl_int error;
    /* Once another thread found the device lost, this may never end. */
    switch (fv_cl_poll(e, timeout, expect, &d->lost, &error)) {
    case FV_CL_DONE:
        return FOVEA_OK;
    case FV_CL_LATE:
        return fv_fail(FOVEA_ETIMEOUT, "not done within %.3f s; wait again", timeout);
    case FV_CL_UNKNOWN:
        return fv_cl_lose(d, error, "clGetEventInfo", NULL);
    default:
        return error == CL_SUCCESS ? fv_cl_ready(d) : fv_cl_lose(d, error, "a command", NULL);
    }
}

fovea_status fv_cl_finish_event(fv_device *d, cl_event e, uint64_t bytes)
{
    const double bound = 10 + (double)bytes / 20e6;
    cl_int error;
    fovea_status status = fv_cl_await(d, e, bound, 0);
    /* Callers then give back what the command uses, though it could not be asked about. */
    if (status != FOVEA_OK && status != FOVEA_ETIMEOUT &&
        fv_cl_poll(e, bound, 0, NULL, &error) == FV_CL_LATE)
        status = FOVEA_ETIMEOUT;
    if (status == FOVEA_ETIMEOUT) {
        d->lost = d->hung = true;
        return fv_fail(FOVEA_EDEVICE, "a transfer is not done after %.0f s: %s", bound, lost_text);
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

fovea_status fv_cl_map(fv_device *d, cl_command_queue queue, cl_mem buffer, cl_map_flags flags,
                       uint64_t size, void **out)
{
    cl_event event = NULL;
    cl_int error;
    void *mapped = fv_cl.clEnqueueMapBuffer(queue, buffer, CL_FALSE, flags, 0, (size_t)size, 0,
                                            NULL, &event, &error);
    if (error != CL_SUCCESS)
        return fv_cl_lose(d, error, "clEnqueueMapBuffer", NULL);
    const fovea_status status = fv_cl_finish(d, queue, event, size);
    if (status == FOVEA_OK)
        *out = mapped;
    else if (!d->hung)
        fv_cl_unmap(d, queue, buffer, mapped, NULL);
    return status;
}

fovea_status fv_cl_unmap(fv_device *d, cl_command_queue queue, cl_mem buffer, void *mapped,
                         cl_event *done)
{
    cl_event event = NULL;
    FV_CL_RUN(d, NULL, clEnqueueUnmapMemObject, (queue, buffer, mapped, 0, NULL, &event));
    if (done) {
        *done = event;
        return FOVEA_OK;
    }
    return fv_cl_finish(d, queue, event, 0);
}

fovea_status fv_cl_queue_make(cl_command_queue *out, const fv_device *d,
                              cl_command_queue_properties properties)
{
    cl_int error;
    const cl_command_queue q =
        fv_cl.clCreateCommandQueue(d->context, d->place.device, properties, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateCommandQueue", NULL);
    *out = q;
    return FOVEA_OK;
}

fovea_status fv_cl_buffer_make(cl_mem *out, const fv_device *d, cl_mem_flags flags, uint64_t size,
                               void *data, const char *what)
{
    cl_int error;
    const cl_mem buffer = fv_cl.clCreateBuffer(d->context, flags, (size_t)size, data, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateBuffer", what);
    *out = buffer;
    return FOVEA_OK;
}

fovea_status fv_cl_image_make(cl_mem *out, const fv_device *d, cl_mem buffer, uint64_t bytes,
                              const char *what)
{
    const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32}; /* which every device reads */
    const cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                                 .image_width = (size_t)(bytes / FV_CL_TEXEL),
                                 .buffer = buffer};
    cl_int error;
    if (bytes / FV_CL_TEXEL > d->limits.texels)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: an image of %llu texels, the device's have %llu at most; a buffer does",
                       what, (unsigned long long)(bytes / FV_CL_TEXEL),
                       (unsigned long long)d->limits.texels);
    const cl_mem image =
        fv_cl.clCreateImage(d->context, CL_MEM_READ_ONLY, &format, &shape, NULL, &error);
    if (error != CL_SUCCESS)
        return fv_fail(FOVEA_ENOTSUP, "%s: clCreateImage: %s (%d); a buffer does", what,
                       fv_cl_error_name(error), (int)error);
    *out = image;
    return FOVEA_OK;
}

void fv_cl_buffer_free(const fv_device *d, cl_mem buffer)
{
    if (buffer && !d->hung)
        fv_cl.clReleaseMemObject(buffer);
}
