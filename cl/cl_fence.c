/* cl_fence.c: sync_files by cl_khr_external_semaphore_sync_fd.
 *
 * A command that waits for the event signals a semaphore. Exporting the semaphore as a file resets
 * it, so that one semaphore serves all frames. It has a queue of its own, so that frames submitted
 * later do not wait for the signal, nor the signal for them.
 *
 * The extension is declared here as far as it is used, since older OpenCL headers do not have it.
 */
#include "cl/cl_fence.h"

#include <string.h>

#include "base/mem.h"

enum {
    SEMAPHORE_TYPE = 0x203D,
    SEMAPHORE_BINARY = 1,
    SEMAPHORE_EXPORT_TYPES = 0x203F,
    SEMAPHORE_SYNC_FD = 0x2058,
};

typedef void *semaphore;
typedef semaphore(create_fn)(cl_context, const cl_ulong *properties, cl_int *error);
typedef cl_int(release_fn)(semaphore);
typedef cl_int(signal_fn)(cl_command_queue, cl_uint n, const semaphore *, const cl_ulong *payloads,
                          cl_uint waits, const cl_event *, cl_event *);
typedef cl_int(export_fn)(semaphore, cl_device_id, cl_uint type, size_t size, void *, size_t *need);

struct fv_cl_fences {
    cl_command_queue queue;
    semaphore semaphore; /* NULL: can no longer be used */
    create_fn *create;
    release_fn *release;
    signal_fn *signal;
    export_fn *export;
};

static const char extension[] = "cl_khr_external_semaphore_sync_fd";

static bool find_functions(fv_cl_fences *f, const fv_device *d)
{
    const struct {
        const char *name;
        void *to;
    } function[] = {
        {"clCreateSemaphoreWithPropertiesKHR", &f->create},
        {"clReleaseSemaphoreKHR", &f->release},
        {"clEnqueueSignalSemaphoresKHR", &f->signal},
        {"clGetSemaphoreHandleForTypeKHR", &f->export},
    };
    for (size_t i = 0; i < sizeof function / sizeof *function; i++) {
        void *found = fv_cl_extension_function(&d->place, function[i].name);
        if (!found)
            return false;
        memcpy(function[i].to, &found, sizeof found);
    }
    return true;
}

static fovea_status make(fv_cl_fences *f, const fv_device *d)
{
    static const cl_ulong properties[] = {
        SEMAPHORE_TYPE, SEMAPHORE_BINARY, SEMAPHORE_EXPORT_TYPES, SEMAPHORE_SYNC_FD, 0, 0};
    cl_int error = CL_SUCCESS;
    if (!find_functions(f, d))
        return fv_fail(FOVEA_ENOTSUP, "its functions are missing");
    f->semaphore = f->create(d->context, properties, &error);
    if (!f->semaphore)
        return fv_cl_fail(error, "clCreateSemaphoreWithPropertiesKHR", "a fence");
    return fv_cl_queue_make(&f->queue, d, 0);
}

void fv_cl_fences_open(fv_cl_fences **out, const fv_device *d)
{
    fv_cl_fences *f;
    if (!fv_cl_has_extension(&d->place, extension) ||
        FV_MEM_NEW(&f, FV_MEM_PLAN, "fences") != FOVEA_OK)
        return;
    if (make(f, d) == FOVEA_OK) {
        *out = f;
        return;
    }
    fv_log("cl: frames have no sync_file: %s: %s", extension, fovea_error());
    fv_cl_fences_close(f, d);
}

static void drop_semaphore(fv_cl_fences *f)
{
    if (f->semaphore)
        f->release(f->semaphore);
    f->semaphore = NULL;
}

void fv_cl_fences_close(fv_cl_fences *f, const fv_device *d)
{
    if (!f)
        return;
    if (!d->hung) {
        drop_semaphore(f);
        if (f->queue)
            fv_cl.clReleaseCommandQueue(f->queue);
    }
    fv_mem_free(f);
}

fovea_status fv_cl_fences_export(fv_cl_fences *f, fv_device *d, cl_event after, int *fd)
{
    int file = -1;
    if (!f || !f->semaphore)
        return fv_fail(FOVEA_ENOTSUP,
                       "the driver has no %s; wait with fovea_wait, or for the event of "
                       "fovea_plan_release_event",
                       extension);
    const char *call = "clEnqueueSignalSemaphoresKHR";
    cl_int error = f->signal(f->queue, 1, &f->semaphore, NULL, 1, &after, NULL);
    if (error == CL_SUCCESS) {
        call = "clFlush";
        error = fv_cl.clFlush(f->queue);
    }
    if (error == CL_SUCCESS) {
        call = "clGetSemaphoreHandleForTypeKHR";
        error =
            f->export(f->semaphore, d->place.device, SEMAPHORE_SYNC_FD, sizeof file, &file, NULL);
    }
    if (error != CL_SUCCESS) {
        drop_semaphore(f); /* it is unknown whether the semaphore is signalled */
        return fv_cl_fail(error, call, "a fence");
    }
    *fd = file;
    return FOVEA_OK;
}
