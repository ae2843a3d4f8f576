/* tune_pictures.h: `fovea tune --accuracy`: which types of products are accurate enough on pictures
 * of the caller's. */
#ifndef FOVEA_CLI_TUNE_PICTURES_H
#define FOVEA_CLI_TUNE_PICTURES_H

#include <fovea/tuning.h>

#include "cli/common/cli.h"

/* The pictures of --accuracy. */
typedef struct tune_pictures {
    char **path; /* directories unfolded */
    size_t count;
    double bound; /* 0: --accuracy was not given */
} tune_pictures;

/* Finds the types of products, reports them on stdout, and adds the facts found to *found. `bar`:
 * the progress that the options show. */
int tune_accuracy(const cli_session *s, const char *model, const tune_pictures *pictures,
                  const fovea_tune_options *options, cli_progress *bar, bool json, size_t *found);

#endif
