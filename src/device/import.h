/* import.h: pictures of the caller's, as frames read them. */
#ifndef FOVEA_DEVICE_IMPORT_H
#define FOVEA_DEVICE_IMPORT_H

#include "device/backend.h"
#include "device/frame_format.h"
#include "platform/os/os_dmabuf.h"

/* Memory of one or more planes. */
typedef struct fv_external_memory {
    void *memory; /* as the caller names it, */
    int fd;       /* by one of both */
    uint64_t size;
    fv_os_dmabuf shared; /* FOVEA_EXTERNAL_DMABUF: fd and size are those of its duplicate */
    const char *host;    /* what the host reads; NULL: it cannot */
    fv_import *import;   /* what the device does; NULL: it cannot */
} fv_external_memory;

struct fovea_external_image {
    fovea_device *device; /* counted */
    fovea_external_image_kind kind;
    fovea_pixel_format format;
    uint32_t width, height, planes, memories;
    fv_external_memory memory[FV_FRAME_PLANES];
    struct fv_external_plane {
        uint32_t memory;
        uint64_t at, stride; /* bytes */
    } plane[FV_FRAME_PLANES];
    fovea_transfer transfer;
    const char *method; /* static */
    char reason[256];
};

/* Whether frames on this device read it through the host. */
bool fv_external_image_by_host(const fovea_external_image *p, const fovea_device *device);
/* Whether frames of the CPU can read it. */
bool fv_external_image_seen(const fovea_external_image *p);

/* Waits until the pixels are there; `by_host`: and are in the host's memory. ETIMEOUT, EINVAL. */
fovea_status fv_external_image_begin(const fovea_external_image *p,
                                     const fovea_acquire_fence *acquire, bool by_host);
/* The host has read it. NULL is fine. */
void fv_external_image_end(const fovea_external_image *p);

#endif
