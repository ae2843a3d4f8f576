/* foreign.h: errors for a path that is not a model in a supported format. The messages say how to
 * convert or fetch it. */
#ifndef FOVEA_SRC_FOREIGN_H
#define FOVEA_SRC_FOREIGN_H

#include "base/status.h"

/* Returns FOVEA_EFORMAT for a PyTorch file; the message contains the command that converts it. */
fovea_status fv_foreign_fail_file(const char *path);
/* Returns FOVEA_EFORMAT for a folder with such a file and without safetensors, or FOVEA_EIO for a
 * folder with neither. */
fovea_status fv_foreign_fail_folder(const char *folder);
/* Returns FOVEA_EIO for a path where nothing exists. If the path may be a name on the Hugging Face
 * hub, the message lists the files to fetch. */
fovea_status fv_foreign_fail_nothing(const char *path);

#endif
