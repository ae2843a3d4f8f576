/* paths.h: where the files of a checkpoint are. */
#ifndef FOVEA_SRC_PATHS_H
#define FOVEA_SRC_PATHS_H

#include "base/status.h"

/* The folder of a checkpoint: `path` itself, or the folder that has the file `path`. Free it with
 * fv_mem_free. */
fovea_status fv_path_folder(char **out, const char *path);
/* "folder/name", to be freed with fv_mem_free. */
fovea_status fv_path_in(char **out, const char *folder, const char *name);

#endif
