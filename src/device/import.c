/* import.c: fovea_external_image: determines, before frames run, how the host and the device access
 * the caller's memory. */
#include "device/import.h"

#include <stdio.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"

#define PATIENCE 10.0 /* maximum seconds that a frame waits for a fence; cameras take far less */

/* ---- the caller's planes ---- */

/* Returns whether the memory has its own opaque layout. */
static bool is_surface(fovea_external_image_kind kind)
{
    return kind == FOVEA_EXTERNAL_EGL || kind == FOVEA_EXTERNAL_NVMM;
}

static fovea_status check_options(const fovea_external_image_options *o)
{
    FV_TRY(fv_known("external image kind", (int)o->kind, FOVEA_EXTERNAL_AHARDWAREBUFFER));
    FV_TRY(fv_known("frame format", (int)o->format, FOVEA_FORMAT_YUYV));
    if (o->width == 0 || o->height == 0 || o->width > UINT16_MAX || o->height > UINT16_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "the external image has %u x %u pixels; sides must be from 1 to %u",
                       o->width, o->height, (unsigned)UINT16_MAX);
    if (o->modifier)
        return fv_fail(FOVEA_ENOTSUP,
                       "the dma-buf has modifier 0x%llx; ask its producer for a linear one "
                       "(DRM_FORMAT_MOD_LINEAR, 0)",
                       (unsigned long long)o->modifier);
    return FOVEA_OK;
}

static fovea_status check_plane(const fovea_external_image_options *o, uint32_t i,
                                const fv_plane_shape *shape, uint64_t *stride, uint64_t *need)
{
    const fovea_external_image_plane *plane = &o->plane[i];
    const uint64_t row = (uint64_t)shape->cols * fv_type_size(shape->type);
    *stride = plane->stride ? plane->stride : row;
    if (o->kind == FOVEA_EXTERNAL_DMABUF ? plane->fd < 0 : !plane->memory)
        return fv_fail(FOVEA_EINVAL, "plane %u of the external image has no %s", i,
                       o->kind == FOVEA_EXTERNAL_DMABUF ? "file descriptor" : "memory");
    if (is_surface(o->kind) && (plane->offset || plane->stride))
        return fv_fail(
            FOVEA_EINVAL,
            "plane %u: this kind of memory has its own layout; leave offset and stride 0", i);
    if (*stride < row || *stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "plane %u: the stride is %llu bytes, but a row has %llu; strides are at "
                       "least a row and less than 4 GiB",
                       i, (unsigned long long)*stride, (unsigned long long)row);
    if (shape->type == FV_F32 && (*stride != row || plane->offset % sizeof(float)))
        return fv_fail(FOVEA_EINVAL,
                       "float planes must have a stride of %llu bytes, which is one row, and an "
                       "offset that is a multiple of 4",
                       (unsigned long long)row);
    *need = plane->offset + *stride * (shape->rows - 1) + row;
    if (plane->offset > UINT32_MAX || *need > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "plane %u ends more than 4 GiB after the start of its memory; pass a "
                       "pointer to the plane and a small offset",
                       i);
    if (plane->size && plane->size < *need)
        return fv_fail(FOVEA_EINVAL, "plane %u has %zu bytes of memory, but %llu are needed", i,
                       plane->size, (unsigned long long)*need);
    return FOVEA_OK;
}

/* Finds the memory of a plane, or adds it; planes in the same memory share it. */
static fv_external_memory *memory_of(fovea_external_image *p, const fovea_external_image_options *o,
                                     uint32_t i)
{
    const int first = is_surface(o->kind) ? 0 : (int)i;
    const fovea_external_image_plane *plane = &o->plane[first];
    const bool shared = o->kind == FOVEA_EXTERNAL_DMABUF;
    for (uint32_t m = 0; m < p->memories; m++)
        if (shared ? p->memory[m].fd == plane->fd : p->memory[m].memory == plane->memory)
            return &p->memory[m];
    fv_external_memory *m = &p->memory[p->memories++];
    *m = (fv_external_memory){.fd = shared ? plane->fd : -1, .shared = {.fd = -1}};
    m->memory = shared ? NULL : plane->memory;
    return m;
}

static fovea_status read_planes(fovea_external_image *p, const fovea_external_image_options *o)
{
    fv_plane_shape shape[FV_FRAME_PLANES];
    p->planes = fv_frame_planes(shape, o->format, o->width, o->height);
    for (uint32_t i = 0; i < p->planes; i++) {
        uint64_t stride = 0, need = 0;
        if (!is_surface(o->kind) || i == 0)
            FV_TRY(check_plane(o, i, &shape[i], &stride, &need));
        fv_external_memory *m = memory_of(p, o, i);
        const uint64_t size = o->plane[i].size ? o->plane[i].size : need;
        m->size = size > m->size ? size : m->size;
        p->plane[i].memory = (uint32_t)(m - p->memory);
        p->plane[i].at = o->plane[i].offset;
        p->plane[i].stride = stride;
    }
    return FOVEA_OK;
}

/* ---- access to the memory ---- */

static fovea_status look(fovea_external_image *p)
{
    for (uint32_t i = 0; i < p->memories; i++) {
        fv_external_memory *m = &p->memory[i];
        if (p->kind == FOVEA_EXTERNAL_HOST)
            m->host = m->memory;
        if (p->kind != FOVEA_EXTERNAL_DMABUF)
            continue;
        FV_TRY(fv_os_dmabuf_open(&m->shared, m->fd, m->size));
        m->fd = m->shared.fd;
        m->host = m->shared.data;
        m->size = m->shared.size;
    }
    return FOVEA_OK;
}

static void forget(fovea_external_image *p)
{
    for (uint32_t i = 0; i < p->memories; i++)
        if (p->memory[i].import)
            p->device->backend->forget(p->device->device, p->memory[i].import);
    for (uint32_t i = 0; i < p->memories; i++)
        p->memory[i].import = NULL;
}

/* Imports all of the image's memory to the device. Returns FOVEA_ENOTSUP if any of it cannot be
 * imported; then none of it is. */
static fovea_status import_all(fovea_external_image *p)
{
    const fv_backend *be = p->device->backend;
    fovea_status status = FOVEA_OK;
    for (uint32_t i = 0; i < p->memories; i++) {
        fv_external_memory *m = &p->memory[i];
        const fv_import_request r = {
            .kind = p->kind,
            .memory = m->memory,
            .fd = m->fd,
            .size = m->size,
            .host = m->host,
            .width = p->width,
            .height = p->height,
            .planes = p->planes,
        };
        FV_THEN(status, be->import(p->device->device, &r, &m->import));
    }
    if (status != FOVEA_OK)
        forget(p);
    return status;
}

/* Sets up an image that the device did not import: the host reads it, in place if frames run on the
 * host. */
static fovea_status settle_for_host(fovea_external_image *p)
{
    const char *id = p->device->info.id;
    p->transfer = p->device->backend->spread ? FOVEA_TRANSFER_NONE : FOVEA_TRANSFER_HOST;
    p->method = p->kind == FOVEA_EXTERNAL_DMABUF ? "mmap" : "host memory";
    for (uint32_t i = 0; i < p->memories; i++)
        if (!p->memory[i].host && p->memory[i].shared.refused)
            return fv_fail(FOVEA_ENOTSUP,
                           "device %s: %s; the host cannot map the dma-buf either: %s", id,
                           p->reason, strerror(p->memory[i].shared.refused));
        else if (!p->memory[i].host)
            return fv_fail(FOVEA_ENOTSUP, "device %s: %s", id, p->reason);
    if (p->transfer == FOVEA_TRANSFER_HOST)
        fv_log("%s: the host copies the frames of an external image: %s", id, p->reason);
    return FOVEA_OK;
}

static fovea_status find_transfer(fovea_external_image *p)
{
    const fovea_status status =
        p->device->backend->import
            ? import_all(p)
            : fv_fail(FOVEA_ENOTSUP, "external images for the CPU must be host memory or dma-bufs");
    if (status == FOVEA_ENOTSUP) {
        snprintf(p->reason, sizeof p->reason, "%s", fovea_error());
        return settle_for_host(p);
    }
    FV_TRY(status);
    p->transfer = p->memory[0].import->transfer;
    p->method = p->memory[0].import->method;
    if (p->transfer == FOVEA_TRANSFER_DEVICE)
        snprintf(p->reason, sizeof p->reason, "%s", p->memory[0].import->reason);
    return FOVEA_OK;
}

static fovea_status fill_image(fovea_external_image *p, const fovea_external_image_options *o)
{
    p->kind = o->kind;
    p->format = o->format;
    p->width = o->width;
    p->height = o->height;
    FV_TRY(read_planes(p, o));
    FV_TRY(look(p));
    FV_TRY(find_transfer(p));
    if (p->transfer == FOVEA_TRANSFER_NONE)
        p->reason[0] = 0;
    return FOVEA_OK;
}

/* ---- public functions ---- */

fovea_status fovea_external_image_import(fovea_external_image **out, fovea_device *device,
                                         const fovea_external_image_options *options)
{
    fovea_external_image_options o = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    fovea_external_image *p;
    FV_TRY(fv_require(out, "the pointer to the external image"));
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_require(options, "the external image's options"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT));
    FV_TRY(check_options(&o));
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_PLAN, "the external image"));
    p->device = fv_device_ref(device);
    FV_RETURN_MADE(out, p, fovea_external_image_free, fill_image(p, &o));
}

void fovea_external_image_free(fovea_external_image *p)
{
    if (!p)
        return;
    forget(p);
    for (uint32_t i = 0; i < p->memories; i++)
        fv_os_dmabuf_close(&p->memory[i].shared);
    fv_device_unref(p->device);
    fv_mem_free(p);
}

fovea_status fovea_external_image_query(const fovea_external_image *p,
                                        fovea_external_image_info *out)
{
    FV_TRY(fv_require(p, "the external image"));
    const fovea_external_image_info info = {.struct_size = sizeof info,
                                            .transfer = p->transfer,
                                            .method = p->method,
                                            .reason = p->reason};
    return FV_ABI_WRITE(out, info, FOVEA_EXTERNAL_IMAGE_INFO_INIT);
}

/* ---- frames ---- */

bool fv_external_image_by_host(const fovea_external_image *p, const fovea_device *device)
{
    return p->device != device || !p->memory[0].import;
}

bool fv_external_image_seen(const fovea_external_image *p)
{
    for (uint32_t i = 0; i < p->memories; i++)
        if (!p->memory[i].host)
            return false;
    return true;
}

static fovea_status begin_host(const fovea_external_image *p)
{
    for (uint32_t i = 0; i < p->memories; i++) {
        const fovea_status status = fv_os_dmabuf_begin(&p->memory[i].shared);
        while (status != FOVEA_OK && i > 0)
            fv_os_dmabuf_end(&p->memory[--i].shared);
        FV_TRY(status);
    }
    return FOVEA_OK;
}

fovea_status fv_external_image_begin(const fovea_external_image *p,
                                     const fovea_acquire_fence *acquire, bool by_host)
{
    if (acquire && acquire->event && by_host)
        return fv_fail(FOVEA_EINVAL,
                       "the fence is a device's event, but the host reads the external image (%s); "
                       "wait for the event first",
                       p->reason);
    if (acquire && acquire->fd > 0)
        FV_TRY(fv_os_fence_wait(acquire->fd, PATIENCE));
    for (uint32_t i = 0; i < p->memories; i++)
        if (p->memory[i].shared.fences)
            FV_TRY(fv_os_fence_wait(p->memory[i].shared.fd, PATIENCE));
    return by_host ? begin_host(p) : FOVEA_OK;
}

void fv_external_image_end(const fovea_external_image *p)
{
    for (uint32_t i = 0; p && i < p->memories; i++)
        fv_os_dmabuf_end(&p->memory[i].shared);
}
