/* dataset.h: pictures with their true classes, masks or depths, for training and evaluation. */
#ifndef FOVEA_CLI_DATASET_H
#define FOVEA_CLI_DATASET_H

#include "cli/common/cli.h"

#define DATASET_NO_LABEL UINT32_MAX

enum { DATASET_SIDE = 65536, DATASET_CLASSES = 1 << 20 };

typedef struct dataset_file {
    char *path, *mask; /* mask is NULL if the picture has none */
    uint32_t label;
} dataset_file;

/* Pictures in one of these forms:
 *
 *     - a folder of pictures;
 *     - a folder of folders, each a class whose pictures are at any depth in it;
 *     - a folder with the subfolders `images` and `masks`, or `images` and `depth` (depth_truth.h);
 *     - a packed file with tensor images U8 (n, h, w, 3) and optionally labels (n) and masks
 *       U8 (n, h, w). */
typedef struct dataset {
    const char *path;
    char *folder;      /* path without '/' at its end; the paths of all files begin with it */
    size_t n, masks;   /* number of pictures; number of pictures with a mask, which is 0 or n */
    size_t classes;    /* number of classes of labels; 0 without labels */
    char **class_name; /* NULL if the classes have no names */
    /* all pictures are two or more levels below `folder`, none directly in a class's folder */
    bool deep;
    dataset_file *file; /* NULL for a packed file */
    fovea_tensors *packed;
    fovea_tensor images, packed_masks, packed_labels;
    uint32_t *label; /* labels in a packed file, or NULL */
    bool depths;     /* the folder has depth pictures */
    /* Units of a depth picture per metre, set by the caller; if 0, depth pictures are not read. */
    double depth_scale;
    bool reduce; /* in masks, class 0 means no class, and k means class k - 1 */
} dataset;

int dataset_open(dataset *out, const char *path);
/* Opens all pictures of a folder and its subfolders, without classes. */
int dataset_open_pictures(dataset *out, const char *path);
/* Fails if the subfolders are probably not classes but one level above them, such as train and val.
 * Call it only where the names of classes do not settle this. */
int dataset_check_classes(const dataset *d);
extern const char *const dataset_reductions[]; /* the values of --reduce-labels */
/* Sets `reduce` from the argument of --reduce-labels. If `text` is NULL, uses the value from the
 * model's file. */
int dataset_reduce(dataset *d, const char *text, const fovea_model_info *model);
void dataset_close(dataset *d);

typedef struct dataset_picture {
    uint32_t width, height;
    /* mask: one byte per pixel, 255 for no class; NULL if the picture has no mask */
    const uint8_t *rgb, *mask;
    uint32_t label;     /* or DATASET_NO_LABEL */
    const float *depth; /* metres, one value per pixel, 0 if unknown; NULL if depths are not read */
    cli_image own;      /* memory of the picture that was read from a file */
    uint8_t *own_mask;
    float *own_depth;
} dataset_picture;

int dataset_read(dataset_picture *out, const dataset *d, size_t index);
void dataset_picture_free(dataset_picture *p);

#endif
