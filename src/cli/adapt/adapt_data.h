/* adapt_data.h: what `fovea adapt` trains on: pictures with their classes or masks, ordered and
 * cropped as a function of the seed and the sample number alone. */
#ifndef FOVEA_CLI_ADAPT_DATA_H
#define FOVEA_CLI_ADAPT_DATA_H

#include "cli/common/cli.h"

#define ADAPT_NO_LABEL UINT32_MAX

enum { ADAPT_SIDE = 65536, ADAPT_CLASSES = 1 << 20 };

/* ---- pictures ---- */

typedef struct adapt_file {
    char *path, *mask; /* mask NULL: none */
    uint32_t label;
} adapt_file;

/* A folder of pictures, of folders of pictures (each a class), of `images` and `masks`; or a packed
 * file: images U8 (n, h, w, 3) and, where there are such, labels (n), masks U8 (n, h, w). */
typedef struct adapt_data {
    const char *path;
    size_t n, masks;   /* pictures, those with a mask: all or none */
    size_t classes;    /* of labels; 0: there are none */
    char **class_name; /* NULL: they have none */
    adapt_file *file;  /* of a folder */
    fovea_tensors *packed;
    fovea_tensor images, packed_masks, packed_labels;
    uint32_t *label; /* of a packed file; NULL: none */
} adapt_data;

int adapt_data_open(adapt_data *out, const char *path);
void adapt_data_close(adapt_data *d);

typedef struct adapt_picture {
    uint32_t width, height;
    const uint8_t *rgb, *mask; /* mask NULL: none; one byte a pixel, 255: not to be learned */
    uint32_t label;            /* or ADAPT_NO_LABEL */
    cli_image own;             /* what was read for it */
    uint8_t *own_mask;
} adapt_picture;

int adapt_data_read(adapt_picture *out, const adapt_data *d, size_t index);
void adapt_picture_free(adapt_picture *p);

/* held_out.c: moves `wanted` pictures at most into *held, which is closed alike; copies of them are
 * dropped. CLI_INPUT when none is left to learn from, and for a packed file. */
int adapt_hold_out(adapt_data *held, adapt_data *d, size_t wanted);
/* Drops the pictures that `held` has too. CLI_INPUT when none is left. */
int adapt_leave_out(adapt_data *d, const adapt_data *held);

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
/* Cuts width x height pixels out of the picture for sample `sample`, packed rows; the mask alike
 * when the picture has one. EINPUT names `name`. */
int adapt_cut(uint8_t *rgb, uint8_t *mask, const adapt_policy *p, const adapt_picture *from,
              uint64_t sample, const char *name);

#endif
