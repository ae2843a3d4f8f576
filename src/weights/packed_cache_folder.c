/* packed_cache_folder.c: the folder of packed weights: finds it, measures its files and removes old
 * ones. */
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"
#include "platform/os/os.h"
#include "weights/packed_cache.h"

const char *fv_packed_cache_folder(const char *named)
{
    const char *path = named ? named : getenv("FOVEA_WEIGHTS_CACHE");
    return path ? path : "";
}

static fovea_status add_file(void *ctx, const char *path)
{
    fovea_weights_cache_info *info = ctx;
    const void *data;
    uint64_t size;
    void *map;
    if (!fv_packed_file_name(fv_os_file_name(path)))
        return FOVEA_OK;
    info->files++;
    if (fv_os_map(path, &data, &size, &map) == FOVEA_OK) {
        info->bytes += size;
        fv_os_unmap(map);
    }
    return FOVEA_OK;
}

static fovea_status look(fovea_weights_cache_info *out, const char *folder)
{
    *out = (fovea_weights_cache_info)FOVEA_WEIGHTS_CACHE_INFO_INIT;
    return *folder ? fv_os_each_file(folder, add_file, out) : FOVEA_OK;
}

fovea_status fovea_weights_cache_describe(const char *folder, fovea_weights_cache_info *out)
{
    fovea_weights_cache_info info;
    FV_TRY(look(&info, fv_packed_cache_folder(folder)));
    return FV_ABI_WRITE(out, info, FOVEA_WEIGHTS_CACHE_INFO_INIT);
}

fovea_status fovea_weights_cache_clear(const char *folder, size_t *removed)
{
    fovea_weights_cache_info before, after;
    *removed = 0;
    folder = fv_packed_cache_folder(folder);
    FV_TRY(look(&before, folder));
    if (before.files == 0)
        return FOVEA_OK;
    fv_os_trim_folder(folder, 0, fv_packed_file_name);
    FV_TRY(look(&after, folder));
    *removed = before.files > after.files ? before.files - after.files : 0;
    return after.files ? fv_fail(FOVEA_EIO,
                                 "%s: %zu packed weights could not be removed; check the "
                                 "permissions of the folder",
                                 folder, after.files)
                       : FOVEA_OK;
}
