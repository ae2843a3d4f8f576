/* import.h: external images: pictures in the caller's memory, as frames read them. */
#ifndef FOVEA_DEVICE_IMPORT_H
#define FOVEA_DEVICE_IMPORT_H

#include "device/backend.h"
#include "device/frame_format.h"
#include "platform/os/os_dmabuf.h"

/* Memory that contains one or more planes. */
typedef struct fv_external_memory {
    void *memory; /* memory and fd: the caller's identification of the memory, */
    int fd;       /* only one of the two is used */
    uint64_t size;
    fv_os_dmabuf shared; /* FOVEA_EXTERNAL_DMABUF: fd and size of the library's duplicate */
    const char *host;    /* address in the host; NULL: the host cannot read the memory */
    fv_import *import;   /* the device's import; NULL: not imported */
} fv_external_memory;

struct fovea_external_image {
    fovea_device *device; /* reference-counted */
    fovea_external_image_kind kind;
    fovea_pixel_format format;
    uint32_t width, height, planes, memories;
    fv_external_memory memory[FV_FRAME_PLANES];
    struct fv_external_plane {
        uint32_t memory;
        uint64_t at, stride; /* in bytes */
    } plane[FV_FRAME_PLANES];
    fovea_transfer transfer;
    const char *method; /* static text */
    char reason[256];
};

/* Returns whether the host reads the image for frames on this device. */
bool fv_external_image_by_host(const fovea_external_image *p, const fovea_device *device);
/* Returns whether frames on the CPU can read the image. */
bool fv_external_image_seen(const fovea_external_image *p);

/* Waits until the pixels have been written and, with `by_host`, until the host can read them.
 * Returns FOVEA_ETIMEOUT if a fence is not signalled in time, or FOVEA_EINVAL for a wrong fence. */
fovea_status fv_external_image_begin(const fovea_external_image *p,
                                     const fovea_acquire_fence *acquire, bool by_host);
/* Ends the host's read access. NULL is allowed. */
void fv_external_image_end(const fovea_external_image *p);

#endif
