/* os_dmabuf.h: memory that drivers share by a file descriptor (dma-buf), as the host sees it; and
 * fences, which are descriptors too. */
#ifndef FOVEA_PLATFORM_OS_DMABUF_H
#define FOVEA_PLATFORM_OS_DMABUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fv_os_dmabuf {
    int fd;           /* a duplicate of the caller's */
    bool fences;      /* it knows of caches and fences; a memfd does not */
    uint64_t size;    /* bytes; 0: it does not say */
    const void *data; /* what the host reads; NULL: it may not, see `refused` */
    int refused;      /* the error number */
} fv_os_dmabuf;

/* Maps it to read, where that is possible; `size` bytes where it does not say how many it has.
 * EINVAL for what is not a file descriptor, or a file of fewer bytes. */
fovea_status fv_os_dmabuf_open(fv_os_dmabuf *out, int fd, uint64_t size);
void fv_os_dmabuf_close(fv_os_dmabuf *d);

/* Before and after the host reads it: what other devices wrote is there, and stays in no cache of
 * the host's. EIO. */
fovea_status fv_os_dmabuf_begin(const fv_os_dmabuf *d);
void fv_os_dmabuf_end(const fv_os_dmabuf *d);

/* Waits until a fence is signalled, or all that writes to a dma-buf is done. ETIMEOUT, EINVAL. */
fovea_status fv_os_fence_wait(int fd, double seconds);

#endif
