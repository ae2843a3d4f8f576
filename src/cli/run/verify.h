/* verify.h: the two parts of `fovea verify`. */
#ifndef FOVEA_CLI_VERIFY_H
#define FOVEA_CLI_VERIFY_H

#include "cli/common/cli.h"

/* Every kernel of the device whose name contains `name` (NULL: all). Exit code: CLI_WRONG when one
 * is wrong, or no case reaches it. */
int verify_kernels(fovea_device *device, const char *name, bool json);

/* Every step of the model on the picture `image`, or on one that is made up (NULL). Exit code:
 * CLI_WRONG when a step is wrong; the first one is named. */
int verify_model(const cli_session *s, const char *name, const char *image, bool json);

#endif
