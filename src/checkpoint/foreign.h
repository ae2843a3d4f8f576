/* foreign.h: what is given for a model and is none yet: the message says what makes it one. */
#ifndef FOVEA_SRC_FOREIGN_H
#define FOVEA_SRC_FOREIGN_H

#include "base/status.h"

/* EFORMAT for a file of PyTorch: the command that converts it. */
fovea_status fv_foreign_fail_file(const char *path);
/* The same for a folder without safetensors that has such a file; EIO for one that has none. */
fovea_status fv_foreign_fail_folder(const char *folder);
/* EIO for a path where nothing is; of what may be a name of the Hugging Face hub, the files to
 * fetch. */
fovea_status fv_foreign_fail_nothing(const char *path);

#endif
