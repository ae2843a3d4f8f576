/* cuda_import.c: imports the caller's memory, from which the device reads pictures: its own memory,
 * pinned host memory, dma-bufs, and the surfaces of Jetson.
 *
 * Kernels read memory in place if it has a device address. Other memory is copied by the device. So
 * is host memory, because the device does not cache it, and kernels read every pixel several times.
 */
#include "cuda/cuda_import.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cuda/cuda_nvbuf.h"

/* Of CUDA 13. */
enum { EXTERNAL_DMABUF_FD = 9 };

typedef struct cuda_import {
    fv_import base;
    CUdeviceptr device;        /* or */
    const char *host;          /* pinned, or */
    CUgraphicsResource mapped; /* with `frame` */
    CUeglFrame frame;
    bool pinned; /* the memory is the host's although it has a device address */
    /* What is released at the end. */
    CUexternalMemory external;
    void *registered;
    fv_nvbuf_surface *surface;
} cuda_import;

static const char method_device[] = "device memory", method_host[] = "cuMemHostRegister",
                  method_egl[] = "EGLImage", method_surface[] = "NvBufSurface",
                  method_external[] = "cuImportExternalMemory";

static bool has_egl(void)
{
    return fv_cuda.cuGraphicsEGLRegisterImage && fv_cuda.cuGraphicsResourceGetMappedEglFrame &&
           fv_cuda.cuGraphicsUnregisterResource;
}

static bool has_external(void)
{
    return fv_cuda.cuImportExternalMemory && fv_cuda.cuExternalMemoryGetMappedBuffer &&
           fv_cuda.cuDestroyExternalMemory;
}

/* ---- device memory ---- */

/* Checks an address of device memory: reading a wrong one would break the context of the whole
 * process. */
static fovea_status take_device(cuda_import *m, const fv_device *d, const fv_import_request *r)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)r->memory;
    int device = 0;
    unsigned type = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    if (fv_cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) !=
        CUDA_SUCCESS)
        return fv_fail(FOVEA_EINVAL, "CUDA does not know the external image's address; pass memory "
                                     "of cudaMalloc, or import the image as host memory");
    if (device != d->index)
        return fv_fail(
            FOVEA_EINVAL,
            "the external image's memory belongs to device cuda:%d, but the plan runs on cuda:%d",
            device, d->index);
    if (fv_cuda.cuMemGetAddressRange(&base, &size, at) == CUDA_SUCCESS &&
        base + size < at + r->size)
        return fv_fail(FOVEA_EINVAL,
                       "the picture needs %llu bytes, but only %llu follow its address; pass a "
                       "larger allocation",
                       (unsigned long long)r->size, (unsigned long long)(base + size - at));
    m->device = at;
    m->pinned = fv_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
                    CUDA_SUCCESS &&
                type == CU_MEMORYTYPE_HOST;
    m->base.method = method_device;
    return FOVEA_OK;
}

/* ---- memory of the host's ---- */

static fovea_status take_host(cuda_import *m, const void *memory, uint64_t size, const char *method)
{
    void *at = (void *)(uintptr_t)memory;
    CUresult error = fv_cuda.cuMemHostRegister(at, (size_t)size, CU_MEMHOSTREGISTER_PORTABLE);
    if (error != CUDA_SUCCESS && error != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        error = fv_cuda.cuMemHostRegister(
            at, (size_t)size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY);
    if (error != CUDA_SUCCESS && error != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return fv_fail(FOVEA_ENOTSUP, "cuMemHostRegister: %s", fv_cuda_error_name(error));
    m->registered = error == CUDA_SUCCESS ? at : NULL;
    m->host = memory;
    m->base.method = method;
    return FOVEA_OK;
}

/* ---- EGL images ---- */

static fovea_status check_frame(const CUeglFrame *f, const fv_import_request *r)
{
    if (f->planeCount != r->planes || f->width < r->width || f->height < r->height)
        return fv_fail(FOVEA_EINVAL,
                       "the EGL image has %u x %u pixels in %u planes, but the picture has %u x %u "
                       "pixels in %u planes",
                       f->width, f->height, f->planeCount, r->width, r->height, r->planes);
    return FOVEA_OK;
}

static fovea_status take_egl(cuda_import *m, void *image, const fv_import_request *r)
{
    if (!has_egl())
        return fv_fail(FOVEA_ENOTSUP, "this driver cannot import EGL images");
    CUresult error = fv_cuda.cuGraphicsEGLRegisterImage(&m->mapped, image, 0);
    if (error != CUDA_SUCCESS) {
        m->mapped = NULL;
        return fv_fail(FOVEA_ENOTSUP, "cuGraphicsEGLRegisterImage: %s", fv_cuda_error_name(error));
    }
    error = fv_cuda.cuGraphicsResourceGetMappedEglFrame(&m->frame, m->mapped, 0, 0);
    if (error != CUDA_SUCCESS)
        return fv_fail(FOVEA_ENOTSUP, "cuGraphicsResourceGetMappedEglFrame: %s",
                       fv_cuda_error_name(error));
    m->base.method = method_egl;
    return check_frame(&m->frame, r);
}

/* ---- NvBufSurface ---- */

static fovea_status map_surface(cuda_import *m, fv_nvbuf_surface *surface,
                                const fv_import_request *r)
{
    const fv_nvbuf_api *nvbuf = fv_cuda_nvbuf();
    if (!nvbuf)
        return fv_fail(
            FOVEA_ENOTSUP,
            "libnvbufsurface.so, which makes EGL images of an NvBufSurface, cannot be opened");
    if (!surface->list->egl_image) {
        if (nvbuf->map_egl(surface, 0) != 0 || !surface->list->egl_image)
            return fv_fail(FOVEA_ENOTSUP, "NvBufSurfaceMapEglImage failed");
        m->surface = surface;
    }
    const fovea_status status = take_egl(m, surface->list->egl_image, r);
    m->base.method = method_surface;
    return status;
}

/* Takes memory of CUDA or of the host whose planes the surface describes. EGL frames describe
 * theirs in the same way. */
static fovea_status take_planes(cuda_import *m, const fv_nvbuf_surface *s,
                                const fv_import_request *r)
{
    const fv_nvbuf_params *p = s->list;
    if (p->planes.count > 3)
        return fv_fail(FOVEA_EINVAL, "the NvBufSurface has %u planes; at most 3 are supported",
                       p->planes.count);
    m->frame = (CUeglFrame){.width = p->width,
                            .height = p->height,
                            .pitch = p->planes.pitch[0],
                            .planeCount = p->planes.count};
    for (uint32_t i = 0; i < p->planes.count; i++)
        m->frame.frame.pPitch[i] = (char *)p->data + p->planes.offset[i];
    m->frame.frameType = 1;
    m->pinned = s->memory == FV_NVBUF_PINNED;
    m->base.method = method_surface;
    return check_frame(&m->frame, r);
}

static fovea_status take_surface(cuda_import *m, fv_nvbuf_surface *surface,
                                 const fv_import_request *r)
{
    if (!surface->list || !surface->filled)
        return fv_fail(FOVEA_EINVAL, "the NvBufSurface contains no picture");
    if (!surface->list->data)
        return map_surface(m, surface, r);
    if (surface->memory == FV_NVBUF_SYSTEM)
        return fv_fail(
            FOVEA_ENOTSUP,
            "the NvBufSurface is in host memory; import its planes as FOVEA_EXTERNAL_HOST");
    return take_planes(m, surface, r);
}

/* ---- dma-bufs ---- */

/* Imports a duplicate of the file descriptor, which the driver owns on success. */
static CUresult import_fd(CUexternalMemory *out, int fd, uint64_t size)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {.type = EXTERNAL_DMABUF_FD, .size = size};
    handle.handle.fd = dup(fd);
    const CUresult error = handle.handle.fd < 0 ? CUDA_ERROR_INVALID_VALUE
                                                : fv_cuda.cuImportExternalMemory(out, &handle);
    if (error != CUDA_SUCCESS && handle.handle.fd >= 0)
        close(handle.handle.fd);
    return error;
}

static fovea_status take_external(cuda_import *m, const fv_import_request *r)
{
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.size = r->size};
    if (!has_external())
        return fv_fail(FOVEA_ENOTSUP, "this driver has no cuImportExternalMemory");
    CUresult error = import_fd(&m->external, r->fd, r->size);
    if (error != CUDA_SUCCESS) {
        m->external = NULL;
        return fv_fail(FOVEA_ENOTSUP, "cuImportExternalMemory: %s", fv_cuda_error_name(error));
    }
    error = fv_cuda.cuExternalMemoryGetMappedBuffer(&m->device, m->external, &all);
    if (error != CUDA_SUCCESS)
        return fv_fail(FOVEA_ENOTSUP, "cuExternalMemoryGetMappedBuffer: %s",
                       fv_cuda_error_name(error));
    m->base.method = method_external;
    return FOVEA_OK;
}

/* Takes a dma-buf of NVIDIA's buffers, as cameras and decoders of Jetson provide it. */
static fovea_status take_nvbuf_fd(cuda_import *m, const fv_import_request *r)
{
    const fv_nvbuf_api *nvbuf = fv_cuda_nvbuf();
    void *surface = NULL;
    if (!nvbuf || !nvbuf->from_fd || nvbuf->from_fd(r->fd, &surface) != 0 || !surface)
        return fv_fail(FOVEA_ENOTSUP, "it is not an NvBufSurface");
    return take_surface(m, surface, r);
}

static fovea_status take_mapped(cuda_import *m, const fv_import_request *r)
{
    return r->host ? take_host(m, r->host, r->size, "mmap, cuMemHostRegister")
                   : fv_fail(FOVEA_ENOTSUP, "the host cannot map it");
}

static void give_back(cuda_import *m);

/* Takes a dma-buf in the first way that works; the message says why the others do not. */
static fovea_status take_dmabuf(cuda_import *m, const fv_import_request *r)
{
    static fovea_status (*const ways[])(cuda_import *, const fv_import_request *) = {
        take_external, take_nvbuf_fd, take_mapped};
    char why[256];
    size_t used = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i](m, r) == FOVEA_OK)
            return FOVEA_OK;
        give_back(m);
        const int n =
            snprintf(why + used, sizeof why - used, "%s%s", used ? ", " : "", fovea_error());
        if (n > 0 && (size_t)n < sizeof why - used)
            used += (size_t)n;
    }
    return fv_fail(FOVEA_ENOTSUP, "CUDA cannot import the dma-buf: %s", why);
}

/* ---- all of them ---- */

static fovea_status take(cuda_import *m, const fv_device *d, const fv_import_request *r)
{
    switch (r->kind) {
    case FOVEA_EXTERNAL_CUDA:
        return take_device(m, d, r);
    case FOVEA_EXTERNAL_HOST:
        return take_host(m, r->memory, r->size, method_host);
    case FOVEA_EXTERNAL_DMABUF:
        return take_dmabuf(m, r);
    case FOVEA_EXTERNAL_EGL:
        return take_egl(m, r->memory, r);
    case FOVEA_EXTERNAL_NVMM:
        return take_surface(m, r->memory, r);
    case FOVEA_EXTERNAL_OPENCL:
    case FOVEA_EXTERNAL_AHARDWAREBUFFER:
        break;
    }
    return fv_fail(FOVEA_ENOTSUP, "CUDA cannot import memory of OpenCL or Android; pass a dma-buf, "
                                  "CUDA memory or host memory");
}

static void give_back(cuda_import *m)
{
    if (m->mapped)
        fv_cuda.cuGraphicsUnregisterResource(m->mapped);
    if (m->surface)
        fv_cuda_nvbuf()->unmap_egl(m->surface, 0);
    if (m->external && m->device)
        fv_cuda.cuMemFree(m->device);
    if (m->external)
        fv_cuda.cuDestroyExternalMemory(m->external);
    if (m->registered)
        fv_cuda.cuMemHostUnregister(m->registered);
    *m = (cuda_import){.base = m->base};
}

/* Why kernels cannot read the memory in place; NULL if they can. */
static const char *reason_to_copy(const cuda_import *m)
{
    CUdeviceptr all = m->device;
    if (m->host || m->pinned)
        return "the device does not cache host memory";
    if (m->mapped && m->frame.frameType == 0)
        return "its pixels are in an array that the driver owns";
    for (unsigned i = 0; !m->device && i < m->frame.planeCount; i++)
        all |= (CUdeviceptr)(uintptr_t)m->frame.frame.pPitch[i];
    if (all % sizeof(float) != 0) /* kernels read numbers at their alignment */
        return "its address is not a multiple of 4";
    return fv_cuda_has_graphs() && !fv_cuda_changes_graphs()
               ? "this driver cannot update recorded commands"
               : NULL;
}

fovea_status fv_cuda_import(fv_device *d, const fv_import_request *r, fv_import **out)
{
    cuda_import *m;
    FV_TRY(FV_MEM_NEW(&m, FV_MEM_PLAN, "an external image"));
    const fovea_status status = take(m, d, r);
    if (status != FOVEA_OK) {
        fv_cuda_forget(d, &m->base);
        return status;
    }
    m->base.reason = reason_to_copy(m);
    m->base.transfer = m->base.reason ? FOVEA_TRANSFER_DEVICE : FOVEA_TRANSFER_NONE;
    *out = &m->base;
    return FOVEA_OK;
}

void fv_cuda_forget(fv_device *d, fv_import *import)
{
    cuda_import *m = (cuda_import *)import;
    if (!d->hung)
        give_back(m);
    fv_mem_free(m);
}

void fv_cuda_list_imports(char list[FV_GPU_WORDS])
{
    const struct {
        bool there;
        const char *method;
    } all[] = {{true, method_device},
               {has_external(), method_external},
               {true, method_host},
               {has_egl(), method_egl},
               {fv_cuda_nvbuf() != NULL, method_surface}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there)
            fv_gpu_add_words(list, all[i].method);
}

/* ---- frames ---- */

fv_cuda_place fv_cuda_imported(const fv_gpu_external *e)
{
    const cuda_import *m = (const cuda_import *)e->import;
    if (m->device)
        return (fv_cuda_place){m->device + e->at, e->stride};
    return (fv_cuda_place){(CUdeviceptr)(uintptr_t)m->frame.frame.pPitch[e->plane], m->frame.pitch};
}

static void set_source(CUDA_MEMCPY2D *copy, const cuda_import *m, const fv_gpu_external *e)
{
    copy->srcPitch = (size_t)e->stride;
    if (m->host) {
        copy->srcMemoryType = CU_MEMORYTYPE_HOST;
        copy->srcHost = m->host + e->at;
    } else if (m->mapped && m->frame.frameType == 0) {
        copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy->srcArray = m->frame.frame.pArray[e->plane];
    } else {
        const fv_cuda_place place = fv_cuda_imported(e);
        copy->srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy->srcDevice = place.at;
        copy->srcPitch = (size_t)place.stride;
    }
}

fovea_status fv_cuda_copy_import(fv_device *d, const fv_gpu_external *e, uint64_t row,
                                 uint32_t rows, CUstream stream)
{
    CUDA_MEMCPY2D copy = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = e->buffer,
                          .dstPitch = (size_t)row,
                          .WidthInBytes = (size_t)row,
                          .Height = rows};
    set_source(&copy, (const cuda_import *)e->import, e);
    FV_CUDA_RUN(d, "an external image", cuMemcpy2DAsync, (&copy, stream));
    return FOVEA_OK;
}
