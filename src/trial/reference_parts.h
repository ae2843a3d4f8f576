/* reference_parts.h: struct fv_reference, private to its files: reference_samples.c chooses which
 * part of the output is compared, reference_int8.c rounds the inputs of int8 products, reference.c
 * computes the expected output, reference_judge.c compares. */
#ifndef FOVEA_SRC_REFERENCE_PARTS_H
#define FOVEA_SRC_REFERENCE_PARTS_H

#include "trial/reference.h"

#define FV_SAMPLES 64 /* rows of a large output that are compared */

/* Rows [row0, row0 + rows) of columns or heads [col0, col0 + cols). */
typedef struct fv_sample {
    uint32_t row0, rows, col0, cols;
} fv_sample;

/* An input in the type that the reference reads: float32, except for pixels. */
typedef struct fv_input {
    void *data;
    uint64_t count;
    uint8_t kind, type;
} fv_input;

struct fv_reference {
    fv_args args; /* with all types float32 and packed output rows */
    const fv_kernel *kernel, *merge;
    uint32_t output, align;
    uint32_t ld;             /* row stride of the step's output in elements */
    uint32_t columns, units; /* columns of an output row, and number of units (columns or heads)
                                into which col0 and cols of a call divide it */
    double off;              /* relative perturbation of the inputs */
    double rough;            /* error of the step's activation in addition to rounding */
    fv_input in[FV_OPERANDS];
    float *table; /* copy of the step's table if it contains floats, else NULL */
    fv_sample sample[FV_SAMPLES];
    uint32_t samples;
    uint64_t values; /* number of values of all samples, as whole rows, followed by those of the
                        state */
    uint64_t state_values;
    uint8_t *bytes; /* expected pixels, if the output is pixels; */
    float *want;    /* otherwise the expected values */
    float *moved;   /* the change of the values by perturbed inputs: root mean square over the
                       runs */
    float *trial;
    void *scratch;
    float *partial; /* reduction: the state of one group */
};

/* Quantises the weight of a product whose weight is stored as int8. */
void fv_reference_int8_stored(fv_reference *d);
/* Converts the pixels of a CONV step to float if they are stored as int8. With `rotated`, they are
 * converted as stored, after the rotation; otherwise, to the pixels' own values. Returns
 * FOVEA_ENOMEM if memory runs out. */
fovea_status fv_reference_int8_pixels(fv_reference *d, bool rotated);
/* Quantises the inputs of a product or an attention that multiplies int8. Returns FOVEA_ENOMEM if
 * memory runs out. */
fovea_status fv_reference_int8(fv_reference *d);
/* Chooses the rows and columns to compare. */
void fv_reference_sample(fv_reference *d);
/* Merges the partial states of `groups` groups into one row, the output of sample `s`. */
void fv_reference_merge(const fv_reference *d, float *partial, uint32_t groups, const fv_sample *s,
                        float *out);

#endif
