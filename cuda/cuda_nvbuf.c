/* cuda_nvbuf.c: opens NVIDIA's library of video buffers. */
#include "cuda/cuda_nvbuf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fv_nvbuf_api api;
static bool found;

static void find(void)
{
    static const char *const names[] = {"libnvbufsurface.so.1.0.0", "libnvbufsurface.so"};
    const char *chosen = getenv("FOVEA_NVBUFSURFACE");
    void *library = chosen && *chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !chosen && !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&api.map_egl = dlsym(library, "NvBufSurfaceMapEglImage");
    *(void **)&api.unmap_egl = dlsym(library, "NvBufSurfaceUnMapEglImage");
    *(void **)&api.from_fd = dlsym(library, "NvBufSurfaceFromFd");
    found = api.map_egl && api.unmap_egl;
}

const fv_nvbuf_api *fv_cuda_nvbuf(void)
{
    pthread_once(&once, find);
    return found ? &api : NULL;
}
