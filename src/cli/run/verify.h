/* verify.h: the parts of `fovea verify`. */
#ifndef FOVEA_CLI_VERIFY_H
#define FOVEA_CLI_VERIFY_H

#include "cli/common/cli.h"

/* Every kernel of the device whose name contains `name` (NULL: all). Exit code: CLI_WRONG when one
 * is wrong, or no case reaches it. */
int verify_kernels(fovea_device *device, const char *name, bool json);

typedef struct verify_request {
    const char *model;
    char *const *picture;
    size_t pictures; /* 0: one that is made up */
    double floor;    /* of the mean cosine with float32; less is wrong */
    bool json;
} verify_request;

/* Verifies every step of the model on the first picture; where not all is float32, compares the
 * main output on every picture with float32. Exit code: CLI_WRONG when a step is wrong, the first
 * of which is named, or when the mean cosine is below the floor. */
int verify_model(const cli_session *s, const verify_request *request);

/* verify_accuracy.c: cosines of the main output's rows with those of the model in float32. */
typedef struct verify_cosines {
    double mean, worst;
    uint32_t rows, worst_row;
} verify_cosines;
int verify_accuracy(verify_cosines *out, const cli_session *s, const fovea_plan_options *options,
                    const cli_image *picture);

#endif
