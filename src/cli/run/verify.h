/* verify.h: the parts of `fovea verify`. */
#ifndef FOVEA_CLI_VERIFY_H
#define FOVEA_CLI_VERIFY_H

#include "cli/common/cli.h"

/* Checks every kernel of the device whose name contains `name`, or all if `name` is NULL. Returns
 * CLI_WRONG if a kernel is wrong, or if no case reaches a kernel. */
int verify_kernels(fovea_device *device, const char *name, bool json);

typedef struct verify_request {
    const char *model;
    char *const *picture;
    size_t pictures; /* number of pictures; 0 to generate one */
    double floor;    /* least mean cosine with the float32 outputs */
    bool json;
} verify_request;

/* Checks every step of the model on the first picture. Unless all products and weights are float32,
 * also compares the main output with float32 on every picture. Returns CLI_WRONG if a step is wrong
 * (the message names the first) or if the mean cosine is below the floor. */
int verify_model(const cli_session *s, const verify_request *request);

/* verify_accuracy.c: cosines between rows of the main output and the same rows computed in
 * float32. */
typedef struct verify_cosines {
    double mean, worst;
    uint32_t rows, worst_row;
} verify_cosines;
int verify_accuracy(verify_cosines *out, const cli_session *s, const fovea_plan_options *options,
                    const cli_image *picture);

#endif
