/* emulated_import.h: declarations that tests and the emulated driver share: the content of an EGL
 * image, and the surface that NvBufSurfaceFromFd() returns. */
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

/* Sets the surface that NvBufSurfaceFromFd() returns for a dma-buf; NULL: none. Exported under the
 * name below. */
typedef void emulated_surface_fn(fv_nvbuf_surface *surface);

#endif
