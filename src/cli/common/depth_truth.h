/* depth_truth.h: finds and reads depth pictures in a folder: DIR/depth/NAME.png belongs to
 * DIR/images/NAME.jpg. NAME may include subfolders, which are the same in both. */
#ifndef FOVEA_CLI_DEPTH_TRUTH_H
#define FOVEA_CLI_DEPTH_TRUTH_H

#include "cli/common/cli.h"

/* Returns the folder `images` in `path`, which the caller frees, or NULL if `path` lacks this
 * folder or the folder `depth`. */
char *depth_truth_pictures(const char *path);
/* Returns the path of the depth picture for `picture`, a file in the folder `images` of `path`. The
 * caller frees it. */
char *depth_truth_path(const char *path, const char *picture);

/* The depths that a model computes for a frame of width x height pixels: one per cell of its
 * grid. */
typedef struct depth_output {
    uint32_t width, height;
    const fovea_plan_info *plan;
    const float *data;
    uint32_t columns, rows;
} depth_output;

/* Collects the pixels of a depth picture, aligned with the frame, that have a depth and that the
 * model saw. Writes the model's depths to `found` and the true depths in metres to `truth`; both
 * need one element per pixel of the picture. `scale` is in units per metre. Returns the number of
 * pixels written. */
size_t depth_truth_pairs(double *found, double *truth, const cli_image *picture, double scale,
                         const depth_output *of);

#endif
