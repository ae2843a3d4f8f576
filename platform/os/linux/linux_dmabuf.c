/* linux_dmabuf.c: implements os_dmabuf.h on Linux. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */

#include "platform/os/os_dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "platform/os/os_machine.h"

/* Repeats the declarations of <linux/dma-buf.h>, which not every system has. */
struct dma_buf_sync {
    uint64_t flags;
};
#define DMA_BUF_SYNC_READ 1u
#define DMA_BUF_SYNC_START 0u
#define DMA_BUF_SYNC_END 4u
#define DMA_BUF_IOCTL_SYNC _IOW('b', 0, struct dma_buf_sync)

/* Returns 0 or the error number. */
static int sync_host(int fd, uint64_t flags)
{
    struct dma_buf_sync sync = {.flags = DMA_BUF_SYNC_READ | flags};
    int result;
    do
        result = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
    while (result != 0 && (errno == EINTR || errno == EAGAIN));
    return result ? errno : 0;
}

/* Returns whether the descriptor is a dma-buf. Plain memory with a descriptor (memfd) has neither
 * caches to synchronise nor fences. */
static bool has_fences(int fd)
{
    const int error = sync_host(fd, DMA_BUF_SYNC_START);
    if (!error)
        sync_host(fd, DMA_BUF_SYNC_END);
    return error != ENOTTY && error != EINVAL;
}

static fovea_status fill(fv_os_dmabuf *d, uint64_t size)
{
    const off_t end = lseek(d->fd, 0, SEEK_END);
    d->size = end > 0 ? (uint64_t)end : 0;
    if (d->size && d->size < size)
        return fv_fail(FOVEA_EINVAL, "the dma-buf has %llu bytes, but the picture needs %llu",
                       (unsigned long long)d->size, (unsigned long long)size);
    void *data = mmap(NULL, (size_t)(d->size ? d->size : size), PROT_READ, MAP_SHARED, d->fd, 0);
    d->data = data == MAP_FAILED ? NULL : data;
    d->refused = data == MAP_FAILED ? errno : 0;
    if (!d->size)
        d->size = size;
    d->fences = has_fences(d->fd);
    return FOVEA_OK;
}

fovea_status fv_os_dmabuf_open(fv_os_dmabuf *out, int fd, uint64_t size)
{
    *out = (fv_os_dmabuf){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    if (out->fd < 0)
        return fv_fail(FOVEA_EINVAL, "the dma-buf's file descriptor %d cannot be duplicated: %s",
                       fd, strerror(errno));
    const fovea_status status = fill(out, size);
    if (status != FOVEA_OK)
        fv_os_dmabuf_close(out);
    return status;
}

void fv_os_dmabuf_close(fv_os_dmabuf *d)
{
    if (d->data)
        munmap((void *)(uintptr_t)d->data, (size_t)d->size);
    if (d->fd >= 0)
        close(d->fd);
    *d = (fv_os_dmabuf){.fd = -1};
}

fovea_status fv_os_dmabuf_begin(const fv_os_dmabuf *d)
{
    const int error = d->fences ? sync_host(d->fd, DMA_BUF_SYNC_START) : 0;
    return error
               ? fv_fail(FOVEA_EIO, "the host cannot read a dma-buf: %s; import the picture again",
                         strerror(error))
               : FOVEA_OK;
}

void fv_os_dmabuf_end(const fv_os_dmabuf *d)
{
    if (d->fences)
        sync_host(d->fd, DMA_BUF_SYNC_END);
}

fovea_status fv_os_fence_wait(int fd, double seconds)
{
    const double deadline = fv_machine_seconds() + seconds;
    struct pollfd fence = {.fd = fd, .events = POLLIN};
    for (;;) {
        const double left = deadline - fv_machine_seconds();
        const int ready = poll(&fence, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
        if (ready > 0 && !(fence.revents & (POLLNVAL | POLLERR)))
            return FOVEA_OK;
        if (ready > 0)
            return fv_fail(FOVEA_EINVAL,
                           "file descriptor %d is not a fence, or the fence signals an error", fd);
        if (ready < 0 && errno != EINTR && errno != EAGAIN)
            return fv_fail(FOVEA_EINVAL, "fence %d: %s", fd, strerror(errno));
        if (ready == 0 && left <= 0)
            return fv_fail(
                FOVEA_ETIMEOUT,
                "the picture was not ready after %g s; check its producer and submit it again",
                seconds);
    }
}
