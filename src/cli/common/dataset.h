/* dataset.h: pictures with their classes or masks, to learn from and to be judged by. */
#ifndef FOVEA_CLI_DATASET_H
#define FOVEA_CLI_DATASET_H

#include "cli/common/cli.h"

#define DATASET_NO_LABEL UINT32_MAX

enum { DATASET_SIDE = 65536, DATASET_CLASSES = 1 << 20 };

typedef struct dataset_file {
    char *path, *mask; /* mask NULL: none */
    uint32_t label;
} dataset_file;

/* A folder of pictures, of folders of pictures (each a class, with all folders in it), of `images`
 * and `masks` or `depth` (depth_truth.h); or a packed file: images U8 (n, h, w, 3) and, where there
 * are such, labels (n), masks U8 (n, h, w). */
typedef struct dataset {
    const char *path;
    char *folder;       /* the same without '/' at its end; all files begin with it */
    size_t n, masks;    /* pictures, those with a mask: all or none */
    size_t classes;     /* of labels; 0: there are none */
    char **class_name;  /* NULL: they have none */
    bool deep;          /* pictures are only in folders of the folders of classes */
    dataset_file *file; /* of a folder */
    fovea_tensors *packed;
    fovea_tensor images, packed_masks, packed_labels;
    uint32_t *label; /* of a packed file; NULL: none */
    bool depths;     /* there is a folder of them */
    /* To be set by who wants them: units of a depth picture in a metre; 0: they are not read. */
    double depth_scale;
    bool reduce; /* masks: 0 is not a class, and k is class k - 1 */
} dataset;

int dataset_open(dataset *out, const char *path);
/* All pictures of a folder and of the folders in it, of which nothing is known. */
int dataset_open_pictures(dataset *out, const char *path);
/* Fails where the folders are more likely a level above classes, such as train and val: to be asked
 * where their names say nothing. */
int dataset_check_classes(const dataset *d);
extern const char *const dataset_reductions[]; /* of --reduce-labels */
/* Sets `reduce` by the text of --reduce-labels; NULL: as the model's file says. */
int dataset_reduce(dataset *d, const char *text, const fovea_model_info *model);
void dataset_close(dataset *d);

typedef struct dataset_picture {
    uint32_t width, height;
    const uint8_t *rgb, *mask; /* mask NULL: none; one byte a pixel, 255: no class */
    uint32_t label;            /* or DATASET_NO_LABEL */
    const float *depth;        /* metres of every pixel, 0: not known; NULL: not wanted */
    cli_image own;             /* what was read for it */
    uint8_t *own_mask;
    float *own_depth;
} dataset_picture;

int dataset_read(dataset_picture *out, const dataset *d, size_t index);
void dataset_picture_free(dataset_picture *p);

#endif
