/* import.h: external images: pictures in the caller's memory, as frames read them. */
#ifndef FOVEA_DEVICE_IMPORT_H
#define FOVEA_DEVICE_IMPORT_H

#include "device/backend.h"
#include "device/frame_format.h"
#include "platform/os/os_dmabuf.h"

/* Memory that has one or more planes. */
typedef struct fv_external_memory {
    void *memory; /* as the caller names it, */
    int fd;       /* by one of both */
    uint64_t size;
    fv_os_dmabuf shared; /* FOVEA_EXTERNAL_DMABUF: fd and size are those of its duplicate */
    const char *host;    /* address for the host; NULL: it cannot read the memory */
    fv_import *import;   /* the device's import; NULL: it has none */
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

/* Whether the host reads the image for frames on this device. */
bool fv_external_image_by_host(const fovea_external_image *p, const fovea_device *device);
/* Whether frames on the CPU can read the image. */
bool fv_external_image_seen(const fovea_external_image *p);

/* Waits until the pixels have been written; with `by_host`, also until the host can read them.
 * ETIMEOUT, EINVAL. */
fovea_status fv_external_image_begin(const fovea_external_image *p,
                                     const fovea_acquire_fence *acquire, bool by_host);
/* Ends the host's reading. NULL is allowed. */
void fv_external_image_end(const fovea_external_image *p);

#endif
