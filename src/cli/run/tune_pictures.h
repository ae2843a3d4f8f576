/* tune_pictures.h: `fovea tune --accuracy`: finds which types of products are accurate enough on
 * the user's pictures. */
#ifndef FOVEA_CLI_TUNE_PICTURES_H
#define FOVEA_CLI_TUNE_PICTURES_H

#include <fovea/tuning.h>

#include "cli/common/cli.h"

/* The pictures of --accuracy. */
typedef struct tune_pictures {
    char **path; /* pictures, with directories expanded */
    size_t count;
    double bound; /* 0 if --accuracy was not given */
} tune_pictures;

/* Finds the types of products, reports them on stdout, and adds the number of facts to *found.
 * `bar` shows the progress. */
int tune_accuracy(const cli_session *s, const char *model, const tune_pictures *pictures,
                  const fovea_tune_options *options, cli_progress *bar, bool json, size_t *found);

#endif
