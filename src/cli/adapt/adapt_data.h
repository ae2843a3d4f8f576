/* adapt_data.h: what `fovea adapt` trains on: the pictures that are held out, and the others,
 * ordered and cropped as a function of the seed and the sample number alone. */
#ifndef FOVEA_CLI_ADAPT_DATA_H
#define FOVEA_CLI_ADAPT_DATA_H

#include "cli/common/dataset.h"

/* held_out.c: moves `wanted` pictures at most into *held, which is closed alike; copies of them are
 * dropped. CLI_INPUT when none is left to learn from, and for a packed file. */
int adapt_hold_out(dataset *held, dataset *d, size_t wanted);
/* Drops the pictures that `held` has too. CLI_INPUT when none is left. */
int adapt_leave_out(dataset *d, const dataset *held);

/* ---- order and cutting ---- */

typedef enum adapt_crop {
    ADAPT_RANDOM, /* a random part of the picture */
    ADAPT_CENTRE, /* the largest centred part of the right aspect */
    ADAPT_NONE,   /* pictures have the size already */
} adapt_crop;

typedef struct adapt_policy {
    uint64_t seed;
    uint32_t width, height; /* of what is cut */
    adapt_crop crop;
    double least, most;  /* of RANDOM: side of the part over that of the largest that fits */
    double flip;         /* probability that left and right change places */
    double jitter;       /* brightness, contrast, saturation times 1 - jitter to 1 + jitter */
    fovea_filter filter; /* of the model's preprocessing */
} adapt_policy;

/* Which of n pictures is sample `sample`: every n samples are a permutation of all of them. */
size_t adapt_pick(uint64_t seed, size_t n, uint64_t sample);
/* width x height pixels; mask and depth, where the picture has such. */
typedef struct adapt_pixels {
    uint8_t *rgb, *mask;
    float *depth;
} adapt_pixels;
/* Cuts them out of the picture for sample `sample`, packed rows. EINPUT names `name`. */
int adapt_cut(const adapt_pixels *out, const adapt_policy *p, const dataset_picture *from,
              uint64_t sample, const char *name);

#endif
