/* os_dmabuf.h: gives the host access to memory that drivers share by a file descriptor (dma-buf),
 * and waits for fences, which are descriptors too. */
#ifndef FOVEA_PLATFORM_OS_DMABUF_H
#define FOVEA_PLATFORM_OS_DMABUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fv_os_dmabuf {
    int fd; /* duplicate of the caller's descriptor */
    /* Whether the descriptor has caches to synchronise and fences; a memfd does not. */
    bool fences;
    uint64_t size;    /* bytes; 0: unknown */
    const void *data; /* the mapped memory, or NULL if the host may not read it: see `refused` */
    int refused;      /* the error number of the mapping, if `data` is NULL */
} fv_os_dmabuf;

/* Maps a dma-buf for reading, if possible: `size` bytes if its size is unknown. Returns
 * FOVEA_EINVAL if `fd` is not a file descriptor, or the file has fewer bytes. */
fovea_status fv_os_dmabuf_open(fv_os_dmabuf *out, int fd, uint64_t size);
void fv_os_dmabuf_close(fv_os_dmabuf *d);

/* Begin and end the host's reading, so that the host sees what other devices have written, and its
 * caches keep none of it. Both return FOVEA_EIO on failure. */
fovea_status fv_os_dmabuf_begin(const fv_os_dmabuf *d);
void fv_os_dmabuf_end(const fv_os_dmabuf *d);

/* Waits until a fence is signalled, or all writes to a dma-buf are done. Returns FOVEA_ETIMEOUT or
 * FOVEA_EINVAL on failure. */
fovea_status fv_os_fence_wait(int fd, double seconds);

#endif
