/* cache.c: the public functions on the folder of compiled kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_cache.h"
#include "mem.h"
#include "status.h"

static const char *chosen(const char *folder)
{
    return folder ? folder : getenv("FOVEA_CACHE");
}

fovea_status fovea_cache_folder(char *out, size_t room)
{
    char *path;
    FV_TRY(fv_gpu_cache_folder(&path, chosen(NULL)));
    const bool fits = strlen(path) < room;
    if (fits)
        strcpy(out, path);
    fv_mem_free(path);
    return fits ? FOVEA_OK : fv_fail(FOVEA_EINVAL, "the cache's path does not fit %zu bytes", room);
}

fovea_status fovea_cache_list(const char *folder, fovea_cache_fn *fn, void *payload)
{
    return fv_gpu_folder_list(chosen(folder), fn, payload);
}

fovea_status fovea_cache_clear(const char *folder, size_t *removed)
{
    return fv_gpu_folder_clear(chosen(folder), removed);
}

fovea_status fovea_cache_pack(const char *folder, void *data, size_t room, size_t *size)
{
    return fv_gpu_folder_pack(chosen(folder), data, room, size);
}

fovea_status fovea_cache_unpack(const char *folder, const void *data, size_t size, size_t *added)
{
    return fv_gpu_folder_unpack(chosen(folder), data, size, added);
}
