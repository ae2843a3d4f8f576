/* emulated_import.c: imports external memory into the emulated driver: file descriptors, EGL
 * images, and NVIDIA's surfaces. The library also replaces that of the surfaces. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda_emulator/emulated_driver.h"
#include "tests/cuda_emulator/emulated_import.h"

enum { FILES = 1, ADDRESSES = 2, ARRAYS = 4 };

static bool imports_by(long way)
{
    return hostile_lie(EMULATED_LIE_imports, 0) & way;
}

static void *made(enum emulated_kind kind, size_t size)
{
    void *out = calloc(1, size);
    if (!out)
        abort();
    pthread_mutex_lock(&hostile_lock);
    hostile_born(kind, out);
    pthread_mutex_unlock(&hostile_lock);
    return out;
}

static bool ends(enum emulated_kind kind, const void *handle)
{
    pthread_mutex_lock(&hostile_lock);
    const bool alive = hostile_dies(kind, handle);
    pthread_mutex_unlock(&hostile_lock);
    return alive;
}

/* ---- file descriptors ---- */

struct CUextMemory_st {
    void *map;
    size_t size;
};

CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
    ENTER(cuImportExternalMemory);
    if (!imports_by(FILES) || handle->type != 9)
        return CUDA_ERROR_NOT_SUPPORTED;
    void *map = mmap(NULL, handle->size, PROT_READ | PROT_WRITE, MAP_SHARED, handle->handle.fd, 0);
    if (map == MAP_FAILED)
        return CUDA_ERROR_INVALID_VALUE;
    close(handle->handle.fd); /* the driver owns the descriptor */
    *memory = made(EMULATED_EXTERNAL, sizeof **memory);
    **memory = (struct CUextMemory_st){map, handle->size};
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *pointer, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
    ENTER(cuExternalMemoryGetMappedBuffer);
    if (buffer->offset || buffer->size > memory->size || buffer->flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&hostile_lock);
    emulated_adopt(EMULATED_MEMORY, memory->map, buffer->size); /* until cuMemFree */
    pthread_mutex_unlock(&hostile_lock);
    *pointer = (CUdeviceptr)(uintptr_t)memory->map;
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    if (!ends(EMULATED_EXTERNAL, memory))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&hostile_lock);
    if (emulated_is_device(memory->map, 1))
        hostile_misused("external memory ends while a buffer of it is mapped");
    pthread_mutex_unlock(&hostile_lock);
    munmap(memory->map, memory->size);
    free(memory);
    return emulated_context_error();
}

/* ---- EGL images ---- */

struct CUgraphicsResource_st {
    const emulated_egl_image *image;
    struct CUarray_st array[3];
};

CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *resource, EGLImageKHR image, unsigned flags)
{
    ENTER(cuGraphicsEGLRegisterImage);
    const emulated_egl_image *i = image;
    if (!imports_by(ADDRESSES | ARRAYS) || flags)
        return CUDA_ERROR_NOT_SUPPORTED;
    *resource = calloc(1, sizeof **resource);
    if (!*resource)
        abort();
    (*resource)->image = i;
    pthread_mutex_lock(&hostile_lock);
    emulated_adopt(EMULATED_RESOURCE, i->memory, i->size);
    pthread_mutex_unlock(&hostile_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphicsResourceGetMappedEglFrame(CUeglFrame *frame, CUgraphicsResource resource,
                                             unsigned index, unsigned level)
{
    ENTER(cuGraphicsResourceGetMappedEglFrame);
    const emulated_egl_image *i = resource->image;
    const bool arrays = imports_by(ARRAYS);
    if (index || level)
        return CUDA_ERROR_INVALID_VALUE;
    *frame = (CUeglFrame){.width = i->width,
                          .height = i->height,
                          .pitch = arrays ? 0 : i->pitch,
                          .planeCount = i->planes,
                          .frameType = !arrays};
    for (uint32_t p = 0; p < i->planes; p++) {
        resource->array[p] = (struct CUarray_st){i->plane[p], i->pitch};
        if (arrays)
            frame->frame.pArray[p] = &resource->array[p];
        else
            frame->frame.pPitch[p] = i->plane[p];
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
    if (!emulated_idle("cuGraphicsUnregisterResource"))
        return CUDA_ERROR_LAUNCH_FAILED;
    pthread_mutex_lock(&hostile_lock);
    const bool alive = emulated_disown(EMULATED_RESOURCE, resource->image->memory);
    pthread_mutex_unlock(&hostile_lock);
    free(resource);
    return alive ? emulated_context_error() : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- NvBufSurface ---- */

API int NvBufSurfaceMapEglImage(fv_nvbuf_surface *surface, int index);
API int NvBufSurfaceUnMapEglImage(fv_nvbuf_surface *surface, int index);
API int NvBufSurfaceFromFd(int fd, void **surface);
API emulated_surface_fn emulated_surface;

static fv_nvbuf_surface *known;

void emulated_surface(fv_nvbuf_surface *surface)
{
    known = surface;
}

int NvBufSurfaceMapEglImage(fv_nvbuf_surface *surface, int index)
{
    fv_nvbuf_params *p = surface->list;
    if (hostile_enter("NvBufSurfaceMapEglImage") || index || p->egl_image)
        return -1;
    char *map = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)p->descriptor, 0);
    if (map == MAP_FAILED)
        return -1;
    emulated_egl_image *i = made(EMULATED_SURFACE, sizeof *i);
    *i = (emulated_egl_image){.width = p->width,
                              .height = p->height,
                              .planes = p->planes.count,
                              .pitch = p->planes.pitch[0],
                              .memory = map,
                              .size = p->size};
    for (uint32_t k = 0; k < i->planes; k++)
        i->plane[k] = map + p->planes.offset[k];
    p->egl_image = i;
    return 0;
}

int NvBufSurfaceUnMapEglImage(fv_nvbuf_surface *surface, int index)
{
    emulated_egl_image *i = surface->list->egl_image;
    if (index || !ends(EMULATED_SURFACE, i))
        return -1;
    munmap(i->memory, i->size);
    free(i);
    surface->list->egl_image = NULL;
    return 0;
}

int NvBufSurfaceFromFd(int fd, void **surface)
{
    struct stat asked, has;
    if (hostile_enter("NvBufSurfaceFromFd") || !known || fstat(fd, &asked) != 0 ||
        fstat((int)known->list->descriptor, &has) != 0 || asked.st_ino != has.st_ino)
        return -1;
    *surface = known;
    return 0;
}
