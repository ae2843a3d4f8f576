/* emulated_import.h: what tests and the emulated driver share of surfaces: what an EGL image is,
 * and where NvBufSurfaceFromFd finds its surface. */
#ifndef FOVEA_TESTS_EMULATED_IMPORT_H
#define FOVEA_TESTS_EMULATED_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_nvbuf.h"

typedef struct emulated_egl_image {
    uint32_t width, height, planes, pitch;
    char *plane[3];
    char *memory; /* all of it */
    size_t size;
} emulated_egl_image;

/* The surface of the dma-buf that its descriptor names; NULL: there is none. Exported by that
 * name. */
typedef void emulated_surface_fn(fv_nvbuf_surface *surface);

#endif
