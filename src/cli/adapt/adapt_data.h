/* adapt_data.h: selects the data of `fovea adapt`: the held-out pictures and the training pictures.
 * The order and the crops of training pictures depend only on the seed and the sample number. */
#ifndef FOVEA_CLI_ADAPT_DATA_H
#define FOVEA_CLI_ADAPT_DATA_H

#include "cli/common/dataset.h"

/* held_out.c: moves at most `wanted` pictures to *held, which the caller closes as it closes d.
 * Copies of moved pictures are dropped. Returns CLI_INPUT for a packed file, or if no picture is
 * left for training. */
int adapt_hold_out(dataset *held, dataset *d, size_t wanted);
/* Drops the pictures that `held` also contains. Returns CLI_INPUT if none is left. */
int adapt_leave_out(dataset *d, const dataset *held);

/* ---- order and cutting ---- */

typedef enum adapt_crop {
    ADAPT_RANDOM, /* a random part of the picture */
    ADAPT_CENTRE, /* the largest centred part with the required aspect ratio */
    ADAPT_NONE,   /* pictures already have the required size */
} adapt_crop;

typedef struct adapt_policy {
    uint64_t seed;
    uint32_t width, height; /* size of a crop */
    adapt_crop crop;
    /* for ADAPT_RANDOM: range of the crop's side, relative to the largest crop that fits */
    double least, most;
    double flip; /* probability that a picture is mirrored */
    /* brightness, contrast and saturation are multiplied by a random number from 1 - jitter to 1 +
     * jitter */
    double jitter;
    fovea_filter filter; /* the filter of the model's preprocessing */
} adapt_policy;

/* Returns the index, below n, of the picture that is sample number `sample`. Samples 0 to n-1, n to
 * 2n-1 and so on are each a permutation of all pictures. */
size_t adapt_pick(uint64_t seed, size_t n, uint64_t sample);
/* width x height pixels; mask and depth are NULL if the picture has none. */
typedef struct adapt_pixels {
    uint8_t *rgb, *mask;
    float *depth;
} adapt_pixels;
/* Crops sample `sample` from its picture, as packed rows. `name` identifies the picture in messages
 * about bad input. */
int adapt_cut(const adapt_pixels *out, const adapt_policy *p, const dataset_picture *from,
              uint64_t sample, const char *name);

#endif
