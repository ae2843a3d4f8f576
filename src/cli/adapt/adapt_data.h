/* adapt_data.h: the data of `fovea adapt`: the pictures that are held out, and the training
 * pictures, ordered and cropped as a function of the seed and the sample number alone. */
#ifndef FOVEA_CLI_ADAPT_DATA_H
#define FOVEA_CLI_ADAPT_DATA_H

#include "cli/common/dataset.h"

/* held_out.c: moves at most `wanted` pictures to *held, which is to be closed like d. Copies of
 * moved pictures are dropped. CLI_INPUT if no picture is left for training, and for a packed
 * file. */
int adapt_hold_out(dataset *held, dataset *d, size_t wanted);
/* Drops the pictures that `held` also has. CLI_INPUT if none is left. */
int adapt_leave_out(dataset *d, const dataset *held);

/* ---- order and cutting ---- */

typedef enum adapt_crop {
    ADAPT_RANDOM, /* a random part of the picture */
    ADAPT_CENTRE, /* the largest centred part with the right aspect */
    ADAPT_NONE,   /* pictures have the size already */
} adapt_crop;

typedef struct adapt_policy {
    uint64_t seed;
    uint32_t width, height; /* of what is cut */
    adapt_crop crop;
    double least, most; /* for RANDOM: side of the part, relative to the largest part that fits */
    double flip;        /* probability that a picture is mirrored */
    /* brightness, contrast and saturation are multiplied by 1 - jitter to 1 + jitter */
    double jitter;
    fovea_filter filter; /* of the model's preprocessing */
} adapt_policy;

/* The index, below n, of the picture that is sample number `sample`. Samples 0 to n-1, n to 2n-1
 * and so on are each a permutation of all pictures. */
size_t adapt_pick(uint64_t seed, size_t n, uint64_t sample);
/* width x height pixels; mask and depth are NULL if the picture has none. */
typedef struct adapt_pixels {
    uint8_t *rgb, *mask;
    float *depth;
} adapt_pixels;
/* Cuts sample `sample` out of its picture, as packed rows. A message about bad input contains
 * `name`. */
int adapt_cut(const adapt_pixels *out, const adapt_policy *p, const dataset_picture *from,
              uint64_t sample, const char *name);

#endif
