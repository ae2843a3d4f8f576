/* paths.c: see paths.h. */
#include "checkpoint/paths.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os.h"

fovea_status fv_path_in(char **out, const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    FV_TRY(fv_mem_alloc(out, size, FV_MEM_MODEL, "file name"));
    snprintf(*out, size, "%s/%s", folder, name);
    return FOVEA_OK;
}

fovea_status fv_path_folder(char **out, const char *path)
{
    FV_TRY(fv_mem_text(out, path, FV_MEM_MODEL));
    char *slash = strrchr(*out, '/');
    if (fv_os_look(path) == FV_OS_FOLDER)
        return FOVEA_OK;
    if (slash)
        slash[slash == *out] = 0;
    else
        memcpy(*out, ".", 2);
    return FOVEA_OK;
}
