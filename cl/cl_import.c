/* cl_import.c: imports the caller's memory as a buffer that kernels read in place: buffers of the
 * same context, dma-bufs, Android's hardware buffers and host memory, with whichever extension the
 * driver supports.
 *
 * The extensions' constants and functions are declared here, as older OpenCL headers lack them.
 */
#include "cl/cl_import.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum {
    EXTERNAL_DMA_BUF_KHR = 0x2067,
    IMPORT_TYPE_ARM = 0x40B2,
    IMPORT_HOST_ARM = 0x40B3,
    IMPORT_DMA_BUF_ARM = 0x40B4,
    IMPORT_AHARDWAREBUFFER_ARM = 0x41E2,
    MEM_EXT_HOST_PTR_QCOM = 1 << 29,
    HOST_UNCACHED_QCOM = 0x40A4,
    ION_HOST_PTR_QCOM = 0x40A8,
    DMABUF_HOST_PTR_QCOM = 0x411D,
    AHARDWAREBUFFER_HOST_PTR_QCOM = 0x4119,
};

typedef cl_mem(import_arm_fn)(cl_context, cl_mem_flags, const intptr_t *properties, void *memory,
                              size_t size, cl_int *error);
typedef cl_int(external_fn)(cl_command_queue, cl_uint n, const cl_mem *, cl_uint waits,
                            const cl_event *, cl_event *);

/* cl_mem_ion_host_ptr and cl_mem_dmabuf_host_ptr, which have the same layout. */
typedef struct host_ptr_qcom {
    cl_uint type, cache_policy;
    int fd;
    void *host;
} host_ptr_qcom;

/* cl_mem_ahardwarebuffer_host_ptr. */
typedef struct ahardwarebuffer_qcom {
    cl_uint type, cache_policy;
    void *buffer;
} ahardwarebuffer_qcom;

typedef struct cl_import {
    fv_import base;
    cl_mem buffer;
    external_fn *acquire, *release; /* NULL: the driver needs none */
} cl_import;

static cl_import *of(fv_import *m)
{
    return (cl_import *)m;
}

/* ---- ways of importing ---- */

typedef struct way {
    fovea_external_image_kind kind;
    const char *extension, *function; /* function NULL: the extension needs no function */
    cl_mem (*make)(cl_import *m, fv_device *d, const fv_import_request *r, void *function,
                   cl_int *error);
} way;

static cl_mem make_khr(cl_import *m, fv_device *d, const fv_import_request *r, void *function,
                       cl_int *error)
{
    const cl_ulong properties[] = {EXTERNAL_DMA_BUF_KHR, (cl_ulong)r->fd, 0};
    void *release = fv_cl_extension_function(&d->place, "clEnqueueReleaseExternalMemObjectsKHR");
    *error = CL_INVALID_OPERATION;
    if (!release || !fv_cl.clCreateBufferWithProperties)
        return NULL;
    memcpy(&m->acquire, &function, sizeof function);
    memcpy(&m->release, &release, sizeof release);
    return fv_cl.clCreateBufferWithProperties(d->context, properties, CL_MEM_READ_ONLY,
                                              (size_t)r->size, NULL, error);
}

static cl_mem make_arm(fv_device *d, void *function, intptr_t type, void *memory, uint64_t size,
                       cl_int *error)
{
    const intptr_t properties[] = {IMPORT_TYPE_ARM, type, 0};
    import_arm_fn *import;
    memcpy(&import, &function, sizeof function);
    return import(d->context, CL_MEM_READ_ONLY, properties, memory, (size_t)size, error);
}

static cl_mem make_arm_dmabuf(cl_import *m, fv_device *d, const fv_import_request *r,
                              void *function, cl_int *error)
{
    int fd = r->fd;
    (void)m;
    return make_arm(d, function, IMPORT_DMA_BUF_ARM, &fd, r->size, error);
}

static cl_mem make_arm_host(cl_import *m, fv_device *d, const fv_import_request *r, void *function,
                            cl_int *error)
{
    (void)m;
    return make_arm(d, function, IMPORT_HOST_ARM, r->memory, r->size, error);
}

/* The driver knows the size of hardware buffers. */
static cl_mem make_arm_ahardwarebuffer(cl_import *m, fv_device *d, const fv_import_request *r,
                                       void *function, cl_int *error)
{
    (void)m;
    return make_arm(d, function, IMPORT_AHARDWAREBUFFER_ARM, r->memory, SIZE_MAX, error);
}

/* Creates a buffer over memory that is declared as uncached by the host: cameras write to it by
 * DMA, not through the host's caches. */
static cl_mem make_qcom(fv_device *d, uint64_t size, void *pointer, cl_int *error)
{
    return fv_cl.clCreateBuffer(d->context,
                                CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR | MEM_EXT_HOST_PTR_QCOM,
                                (size_t)size, pointer, error);
}

static cl_mem make_qcom_fd(fv_device *d, const fv_import_request *r, cl_uint type, cl_int *error)
{
    host_ptr_qcom pointer = {type, HOST_UNCACHED_QCOM, r->fd, (void *)(uintptr_t)r->host};
    return make_qcom(d, r->size, &pointer, error);
}

static cl_mem make_qcom_dmabuf(cl_import *m, fv_device *d, const fv_import_request *r,
                               void *function, cl_int *error)
{
    (void)m, (void)function;
    return make_qcom_fd(d, r, DMABUF_HOST_PTR_QCOM, error);
}

static cl_mem make_qcom_ion(cl_import *m, fv_device *d, const fv_import_request *r, void *function,
                            cl_int *error)
{
    (void)m, (void)function;
    return make_qcom_fd(d, r, ION_HOST_PTR_QCOM, error);
}

static cl_mem make_qcom_ahardwarebuffer(cl_import *m, fv_device *d, const fv_import_request *r,
                                        void *function, cl_int *error)
{
    ahardwarebuffer_qcom pointer = {AHARDWAREBUFFER_HOST_PTR_QCOM, HOST_UNCACHED_QCOM, r->memory};
    (void)m, (void)function;
    return make_qcom(d, 0, &pointer, error);
}

static const char callers_own[] = "cl_mem";

/* Tried in this order; the first way that works is taken. */
static const way ways[] = {
    {FOVEA_EXTERNAL_DMABUF, "cl_khr_external_memory_dma_buf",
     "clEnqueueAcquireExternalMemObjectsKHR", make_khr},
    {FOVEA_EXTERNAL_DMABUF, "cl_arm_import_memory_dma_buf", "clImportMemoryARM", make_arm_dmabuf},
    {FOVEA_EXTERNAL_DMABUF, "cl_qcom_dmabuf_host_ptr", NULL, make_qcom_dmabuf},
    {FOVEA_EXTERNAL_DMABUF, "cl_qcom_ion_host_ptr", NULL, make_qcom_ion},
    {FOVEA_EXTERNAL_HOST, "cl_arm_import_memory_host", "clImportMemoryARM", make_arm_host},
    {FOVEA_EXTERNAL_AHARDWAREBUFFER, "cl_arm_import_memory_android_hardware_buffer",
     "clImportMemoryARM", make_arm_ahardwarebuffer},
    {FOVEA_EXTERNAL_AHARDWAREBUFFER, "cl_qcom_android_ahardwarebuffer_host_ptr", NULL,
     make_qcom_ahardwarebuffer},
};

/* The reasons why no way has led to a buffer. */
typedef struct refusals {
    char text[192];
    size_t length;
} refusals;

static void refused(refusals *why, const char *extension, const char *error)
{
    const int n =
        snprintf(why->text + why->length, sizeof why->text - why->length, "%s%s%s%s",
                 why->length ? ", " : "", extension, error ? ": " : "", error ? error : "");
    if (n > 0 && (size_t)n < sizeof why->text - why->length)
        why->length += (size_t)n;
}

static bool try_way(cl_import *m, fv_device *d, const fv_import_request *r, const way *w,
                    refusals *why)
{
    cl_int error = CL_SUCCESS;
    void *function = w->function ? fv_cl_extension_function(&d->place, w->function) : NULL;
    *m = (cl_import){.base = {.method = w->extension}};
    if (w->function && !function) {
        refused(why, w->extension, "its functions are missing");
        return false;
    }
    m->buffer = w->make(m, d, r, function, &error);
    if (m->buffer)
        return true;
    refused(why, w->extension, fv_cl_error_name(error));
    return false;
}

static fovea_status import_memory(cl_import *m, fv_device *d, const fv_import_request *r)
{
    refusals why = {.text = ""}, lacks = {.text = ""};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].kind != r->kind)
            continue;
        if (!fv_cl_has_extension(&d->place, ways[i].extension))
            refused(&lacks, ways[i].extension, NULL);
        else if (try_way(m, d, r, &ways[i], &why))
            return FOVEA_OK;
    }
    if (why.length)
        return fv_fail(FOVEA_ENOTSUP, "the driver cannot import this kind of memory (%s)",
                       why.text);
    if (lacks.length)
        return fv_fail(FOVEA_ENOTSUP, "the driver has none of the extensions %s", lacks.text);
    return fv_fail(
        FOVEA_ENOTSUP,
        "OpenCL cannot import memory of this kind; pass a dma-buf, a cl_mem or host memory");
}

/* Checks the size of a buffer that the driver knows, such as a hardware buffer's. */
static fovea_status check_size(cl_mem buffer, const char *what, const fv_import_request *r)
{
    size_t size = 0;
    FV_CL_TRY("the external image's buffer", clGetMemObjectInfo,
              (buffer, CL_MEM_SIZE, sizeof size, &size, NULL));
    if (size < r->size)
        return fv_fail(FOVEA_EINVAL,
                       "%s has %zu bytes, but the picture needs %llu; pass a larger one", what,
                       size, (unsigned long long)r->size);
    return FOVEA_OK;
}

/* Takes a buffer that the caller has created. */
static fovea_status take_buffer(cl_import *m, fv_device *d, const fv_import_request *r)
{
    const cl_mem buffer = r->memory;
    cl_context context = NULL;
    FV_CL_TRY("the external image's buffer", clGetMemObjectInfo,
              (buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL));
    if (context != d->context)
        return fv_fail(FOVEA_EINVAL, "the external image's cl_mem belongs to another context; open "
                                     "the device with that context: fovea_device_options.context");
    FV_TRY(check_size(buffer, "a cl_mem", r));
    FV_CL_TRY("the external image's buffer", clRetainMemObject, (buffer));
    *m = (cl_import){.base = {.method = callers_own}, .buffer = buffer};
    return FOVEA_OK;
}

fovea_status fv_cl_import(fv_device *d, const fv_import_request *r, fv_import **out)
{
    cl_import *m;
    FV_TRY(fv_cl_ready(d));
    FV_TRY(FV_MEM_NEW(&m, FV_MEM_PLAN, "an external image"));
    fovea_status status =
        r->kind == FOVEA_EXTERNAL_OPENCL ? take_buffer(m, d, r) : import_memory(m, d, r);
    if (r->kind == FOVEA_EXTERNAL_AHARDWAREBUFFER)
        FV_THEN(status, check_size(m->buffer, "an AHardwareBuffer", r));
    if (status == FOVEA_OK)
        *out = &m->base;
    else
        fv_cl_forget(d, &m->base);
    return status;
}

void fv_cl_forget(fv_device *d, fv_import *m)
{
    fv_cl_buffer_free(d, of(m)->buffer);
    fv_mem_free(m);
}

void fv_cl_list_imports(char list[FV_GPU_WORDS], const fv_cl_place *p)
{
    fv_gpu_add_words(list, callers_own);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (fv_cl_has_extension(p, ways[i].extension))
            fv_gpu_add_words(list, ways[i].extension);
}

/* ---- frames ---- */

cl_mem fv_cl_imported(const fv_import *m)
{
    return ((const cl_import *)m)->buffer;
}

fovea_status fv_cl_acquire(fv_device *d, cl_command_queue queue, const fv_import *m, cl_event ready)
{
    const cl_import *i = (const cl_import *)m;
    if (!i->acquire)
        return FOVEA_OK;
    const cl_int error =
        i->acquire(queue, 1, &i->buffer, ready ? 1 : 0, ready ? &ready : NULL, NULL);
    return error == CL_SUCCESS
               ? FOVEA_OK
               : fv_cl_lose(d, error, "clEnqueueAcquireExternalMemObjectsKHR", "an external image");
}

fovea_status fv_cl_release(fv_device *d, cl_command_queue queue, const fv_import *m)
{
    const cl_import *i = (const cl_import *)m;
    if (!i->release)
        return FOVEA_OK;
    const cl_int error = i->release(queue, 1, &i->buffer, 0, NULL, NULL);
    return error == CL_SUCCESS
               ? FOVEA_OK
               : fv_cl_lose(d, error, "clEnqueueReleaseExternalMemObjectsKHR", "an external image");
}
