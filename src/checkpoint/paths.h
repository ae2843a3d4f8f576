/* paths.h: finds the files of a checkpoint. */
#ifndef FOVEA_SRC_PATHS_H
#define FOVEA_SRC_PATHS_H

#include "base/status.h"

/* Gets the folder of a checkpoint: `path` itself, or the folder that contains the file `path`. Free
 * it with fv_mem_free. */
fovea_status fv_path_folder(char **out, const char *path);
/* Makes "folder/name". Free it with fv_mem_free. */
fovea_status fv_path_in(char **out, const char *folder, const char *name);

#endif
