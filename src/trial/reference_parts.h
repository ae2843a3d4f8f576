/* definition_parts.h: a definition, for those files that make it what it is: definition.c works it
 * out, definition_samples.c says of what, definition_judge.c compares with it. */
#ifndef FOVEA_SRC_REFERENCE_PARTS_H
#define FOVEA_SRC_REFERENCE_PARTS_H

#include "trial/reference.h"

#define FV_SAMPLES 64 /* rows that are compared of a large output */

/* Rows [row0, row0 + rows) of columns or heads [col0, col0 + cols). */
typedef struct fv_sample {
    uint32_t row0, rows, col0, cols;
} fv_sample;

/* An input as the definition reads it: float32, pixels aside. */
typedef struct fv_input {
    void *data;
    uint64_t count;
    uint8_t kind, type;
} fv_input;

struct fv_reference {
    fv_args args; /* all types float32; the output's rows are packed */
    const fv_kernel *kernel, *merge;
    uint32_t output, align;
    uint32_t ld;             /* of the output as the step writes it */
    uint32_t columns, units; /* of a row of the output; what col0 and cols of a call count */
    fv_input in[FV_OPERANDS];
    fv_sample sample[FV_SAMPLES];
    uint32_t samples;
    uint64_t values; /* of all samples, whole rows; behind them those of the state */
    uint64_t state_values;
    uint8_t *bytes; /* what they should be, where the output is pixels; */
    float *want;    /* else this, */
    float *moved;   /* by how much it moves: root of the mean square of the trials */
    float *trial;
    void *scratch;
    float *partial; /* of a reduction: one group's */
};

/* What is compared of the output. */
void fv_reference_sample(fv_reference *d);
/* The partial states of `groups` groups as a row of the output. */
void fv_reference_merge(const fv_reference *d, float *partial, uint32_t groups, const fv_sample *s,
                        float *out);

#endif
