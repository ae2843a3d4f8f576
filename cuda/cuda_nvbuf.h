/* cuda_nvbuf.h: NvBufSurface, the video buffers of Jetson. Declares the parts of NVIDIA's interface
 * that are used; the library is opened at run time. FOVEA_NVBUFSURFACE names the library to open
 * instead.
 */
#ifndef FOVEA_CUDA_CUDA_NVBUF_H
#define FOVEA_CUDA_CUDA_NVBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NVIDIA's structures have reserved fields after those declared here. So only the first picture of
 * a surface can be accessed. */
typedef struct fv_nvbuf_params {
    uint32_t width, height, pitch;
    int color_format, layout;
    uint64_t descriptor; /* of a dma-buf */
    uint32_t size;
    void *data; /* memory of CUDA or of the host; NULL: neither */
    struct {
        uint32_t count;
        uint32_t width[4], height[4], pitch[4], offset[4], size[4], bytes_per_pixel[4];
        void *reserved[16];
    } planes;
    void *mapped[4];
    void *egl_image; /* once it was mapped */
} fv_nvbuf_params;

enum { FV_NVBUF_PINNED = 1, FV_NVBUF_SYSTEM = 6 }; /* memory of the host's */
typedef struct fv_nvbuf_surface {
    uint32_t gpu, batch, filled;
    bool contiguous;
    int memory;
    fv_nvbuf_params *list;
} fv_nvbuf_surface;

typedef struct fv_nvbuf_api {
    int (*map_egl)(fv_nvbuf_surface *surface, int index); /* 0: done */
    int (*unmap_egl)(fv_nvbuf_surface *surface, int index);
    int (*from_fd)(int fd, void **surface); /* NULL in old versions */
} fv_nvbuf_api;

/* NULL if there is no such library. Thread-safe. */
const fv_nvbuf_api *fv_cuda_nvbuf(void);

_Static_assert(sizeof(void *) != 8 || (offsetof(fv_nvbuf_params, data) == 40 &&
                                       offsetof(fv_nvbuf_params, egl_image) == 312 &&
                                       offsetof(fv_nvbuf_surface, list) == 24),
               "NvBufSurface");

#endif
