/* foreign.h: errors for a path that is not a model yet; their messages say how to make it one. */
#ifndef FOVEA_SRC_FOREIGN_H
#define FOVEA_SRC_FOREIGN_H

#include "base/status.h"

/* EFORMAT for a file of PyTorch; the message has the command that converts it. */
fovea_status fv_foreign_fail_file(const char *path);
/* The same for a folder without safetensors that has such a file; EIO if it has no such file
 * either. */
fovea_status fv_foreign_fail_folder(const char *folder);
/* EIO for a path where nothing exists. If it may be a name on the Hugging Face hub, the message
 * lists the files to fetch. */
fovea_status fv_foreign_fail_nothing(const char *path);

#endif
