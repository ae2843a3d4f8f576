/* emulated_memory.c: memory of the emulated device, and host memory that the device knows.
 *
 * Each allocation has its own pages between inaccessible pages, and the rest of its last page is
 * checked for writes. Its bytes are NaN until they are written. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda_emulator/emulated_driver.h"

enum { PAGE = 4096, BEHIND = 0xfd, UNWRITTEN = 0xff };

typedef struct piece {
    struct piece *next;
    char *at;
    size_t size, pages; /* pages: bytes including the rest of the last page */
    enum emulated_kind kind;
    bool adopted;
} piece;

static piece *pieces;
static size_t taken; /* bytes of device memory in use */

static bool lies_in(const piece *p, const char *at, size_t size)
{
    return at >= p->at && at + size <= p->at + p->size;
}

static bool is_of(enum emulated_kind kind, const void *at, size_t size)
{
    for (const piece *p = pieces; p; p = p->next)
        if (p->kind == kind && lies_in(p, at, size))
            return true;
    return false;
}

/* Pinned memory has the same address on host and device. */
bool emulated_is_device(const void *at, size_t size)
{
    return is_of(EMULATED_MEMORY, at, size) || is_of(EMULATED_PINNED, at, size) ||
           is_of(EMULATED_RESOURCE, at, size);
}

bool emulated_is_pinned(const void *at, size_t size)
{
    return is_of(EMULATED_PINNED, at, size) || is_of(EMULATED_REGISTERED, at, size);
}

void emulated_describe(const void *address, char *out, size_t size)
{
    const char *at = address;
    for (const piece *p = pieces; p; p = p->next)
        if (at >= p->at - PAGE && at < p->at + p->pages + PAGE) {
            snprintf(out, size, "%td bytes from the begin of a piece of %zu", at - p->at, p->size);
            return;
        }
    snprintf(out, size, "%p, nowhere near the device's memory", address);
}

bool emulated_memory_intact(void)
{
    bool intact = true;
    for (const piece *p = pieces; p; p = p->next)
        for (size_t i = p->size; intact && i < p->pages; i++)
            intact = (unsigned char)p->at[i] == BEHIND;
    return intact;
}

static CUresult take(enum emulated_kind kind, size_t bytes, char **out)
{
    const size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    const size_t most = (size_t)hostile_lie(EMULATED_LIE_largest, 8L << 30);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (taken + bytes < bytes || taken + bytes > most ||
        taken + bytes > (size_t)hostile_lie(EMULATED_LIE_holds, LONG_MAX))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *at =
        mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    piece *p = malloc(sizeof *p);
    if (at == MAP_FAILED || !p || mprotect(at + PAGE, pages, PROT_READ | PROT_WRITE) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *p = (piece){pieces, at + PAGE, bytes, pages, kind, false};
    memset(p->at, UNWRITTEN, bytes);
    memset(p->at + bytes, BEHIND, pages - bytes);
    pieces = p;
    taken += bytes;
    hostile_born(kind, p->at);
    *out = p->at;
    return CUDA_SUCCESS;
}

static void drop(piece **link)
{
    piece *p = *link;
    for (size_t i = p->size; i < p->pages; i++)
        if ((unsigned char)p->at[i] != BEHIND) {
            hostile_misused("something wrote behind a piece of memory");
            break;
        }
    *link = p->next;
    if (!p->adopted) {
        taken -= p->size;
        munmap(p->at - PAGE, p->pages + 2 * PAGE);
    }
    free(p);
}

void emulated_adopt(enum emulated_kind kind, void *at, size_t size)
{
    piece *p = malloc(sizeof *p);
    if (!p)
        abort();
    *p = (piece){pieces, at, size, size, kind, true};
    pieces = p;
    hostile_born(kind, at);
}

bool emulated_disown(enum emulated_kind kind, const void *at)
{
    const bool alive = hostile_dies(kind, at);
    for (piece **p = &pieces; alive && *p; p = &(*p)->next)
        if ((*p)->at == at && (*p)->kind == kind) {
            drop(p);
            break;
        }
    return alive;
}

static CUresult give_back(enum emulated_kind kind, const void *at, const char *call)
{
    if (!emulated_idle(call)) /* the real driver waits until the device is idle */
        return CUDA_ERROR_LAUNCH_FAILED;
    pthread_mutex_lock(&hostile_lock);
    const bool alive = emulated_disown(kind, at);
    pthread_mutex_unlock(&hostile_lock);
    return alive ? emulated_context_error() : CUDA_ERROR_INVALID_VALUE;
}

void emulated_memory_drop(void)
{
    pthread_mutex_lock(&hostile_lock);
    while (pieces) {
        hostile_dies(pieces->kind, pieces->at);
        drop(&pieces);
    }
    pthread_mutex_unlock(&hostile_lock);
}

/* ---- calls ---- */

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    ENTER(cuMemGetInfo);
    pthread_mutex_lock(&hostile_lock);
    *total = (size_t)hostile_lie(EMULATED_LIE_largest, 8L << 30);
    const size_t most = (size_t)hostile_lie(EMULATED_LIE_free, (long)*total);
    *free = most > taken ? most - taken : 0;
    pthread_mutex_unlock(&hostile_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    char *at = NULL;
    ENTER_UNSAFE(cuMemAlloc);
    pthread_mutex_lock(&hostile_lock);
    const CUresult error = take(EMULATED_MEMORY, bytes, &at);
    pthread_mutex_unlock(&hostile_lock);
    *pointer = (CUdeviceptr)(uintptr_t)at;
    return error;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return pointer ? give_back(EMULATED_MEMORY, (const void *)(uintptr_t)pointer, "cuMemFree")
                   : CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    char *at = NULL;
    ENTER_UNSAFE(cuMemHostAlloc);
    if (flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&hostile_lock);
    const CUresult error = take(EMULATED_PINNED, bytes, &at);
    pthread_mutex_unlock(&hostile_lock);
    *pointer = at;
    return error;
}

CUresult cuMemFreeHost(void *pointer)
{
    return give_back(EMULATED_PINNED, pointer, "cuMemFreeHost");
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer);
    pthread_mutex_lock(&hostile_lock);
    const bool known = emulated_is_pinned(host, 1);
    pthread_mutex_unlock(&hostile_lock);
    *device = (CUdeviceptr)(uintptr_t)host;
    return known && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Returns the known allocation that contains an address, or NULL. */
static const piece *piece_at(CUdeviceptr pointer)
{
    for (const piece *p = pieces; p; p = p->next)
        if (lies_in(p, (const char *)(uintptr_t)pointer, 1))
            return p;
    return NULL;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    ENTER(cuPointerGetAttribute);
    pthread_mutex_lock(&hostile_lock);
    const piece *p = piece_at(pointer);
    const bool hosts = p && (p->kind == EMULATED_PINNED || p->kind == EMULATED_REGISTERED);
    pthread_mutex_unlock(&hostile_lock);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)value = hosts ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)value = 0;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    ENTER(cuMemGetAddressRange);
    pthread_mutex_lock(&hostile_lock);
    const piece *p = piece_at(pointer);
    *base = p ? (CUdeviceptr)(uintptr_t)p->at : 0;
    *bytes = p ? p->size : 0;
    pthread_mutex_unlock(&hostile_lock);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
    ENTER(cuMemHostRegister);
    if (flags & ~15u || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (hostile_lie(EMULATED_LIE_imports, 0) & 8)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&hostile_lock);
    const bool known = emulated_is_pinned(pointer, 1);
    if (!known)
        emulated_adopt(EMULATED_REGISTERED, pointer, bytes);
    pthread_mutex_unlock(&hostile_lock);
    return known ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer)
{
    return give_back(EMULATED_REGISTERED, pointer, "cuMemHostUnregister");
}
