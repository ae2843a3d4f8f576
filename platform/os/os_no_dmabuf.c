/* os_no_dmabuf.c: implements os_dmabuf.h for systems without such descriptors. */
#include "platform/os/os_dmabuf.h"

fovea_status fv_os_dmabuf_open(fv_os_dmabuf *out, int fd, uint64_t size)
{
    (void)out, (void)size;
    return fv_fail(FOVEA_EINVAL, "file descriptor %d: dma-bufs exist on Linux only", fd);
}

void fv_os_dmabuf_close(fv_os_dmabuf *d)
{
    (void)d;
}

fovea_status fv_os_dmabuf_begin(const fv_os_dmabuf *d)
{
    (void)d;
    return FOVEA_OK;
}

void fv_os_dmabuf_end(const fv_os_dmabuf *d)
{
    (void)d;
}

fovea_status fv_os_fence_wait(int fd, double seconds)
{
    (void)seconds;
    return fv_fail(FOVEA_EINVAL, "file descriptor %d: fences with descriptors exist on Linux only",
                   fd);
}
