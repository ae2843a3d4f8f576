/* os_dmabuf.h: access by the host to memory that drivers share by a file descriptor (dma-buf); and
 * fences, which are descriptors too. */
#ifndef FOVEA_PLATFORM_OS_DMABUF_H
#define FOVEA_PLATFORM_OS_DMABUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fv_os_dmabuf {
    int fd; /* a duplicate of the caller's */
    /* Whether the descriptor has caches to synchronise and fences; a memfd does not. */
    bool fences;
    uint64_t size;    /* bytes; 0: unknown */
    const void *data; /* the mapped memory; NULL: the host may not read it, see `refused` */
    int refused;      /* the error number */
} fv_os_dmabuf;

/* Maps a dma-buf for reading, if possible; `size` bytes if its size is unknown. EINVAL if `fd` is
 * not a file descriptor, or the file has fewer bytes. */
fovea_status fv_os_dmabuf_open(fv_os_dmabuf *out, int fd, uint64_t size);
void fv_os_dmabuf_close(fv_os_dmabuf *d);

/* To be called before and after the host reads it, so that the host sees what other devices have
 * written, and keeps nothing of it in its caches. EIO. */
fovea_status fv_os_dmabuf_begin(const fv_os_dmabuf *d);
void fv_os_dmabuf_end(const fv_os_dmabuf *d);

/* Waits until a fence is signalled, or all writes to a dma-buf are done. ETIMEOUT, EINVAL. */
fovea_status fv_os_fence_wait(int fd, double seconds);

#endif
