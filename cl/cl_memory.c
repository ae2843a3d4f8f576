/* cl_memory.c: creates queues, buffers and images, and maps buffers for the host. */
#include "cl/cl_device.h"

cl_mem_flags fv_cl_flags(const fv_device *d)
{
    return CL_MEM_READ_WRITE | (d->limits.unified ? CL_MEM_ALLOC_HOST_PTR : 0);
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
                       "%s: the image would have %llu texels, but the device allows at most %llu; "
                       "falling back to a buffer",
                       what, (unsigned long long)(bytes / FV_CL_TEXEL),
                       (unsigned long long)d->limits.texels);
    const cl_mem image =
        fv_cl.clCreateImage(d->context, CL_MEM_READ_ONLY, &format, &shape, NULL, &error);
    if (error != CL_SUCCESS)
        return fv_fail(FOVEA_ENOTSUP, "%s: clCreateImage: %s (%d); falling back to a buffer", what,
                       fv_cl_error_name(error), (int)error);
    *out = image;
    return FOVEA_OK;
}

void fv_cl_buffer_free(const fv_device *d, cl_mem buffer)
{
    if (buffer && !d->hung)
        fv_cl.clReleaseMemObject(buffer);
}
