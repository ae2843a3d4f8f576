/* depth_truth.h: depth pictures in a folder: DIR/depth/NAME.png belongs to DIR/images/NAME.jpg.
 * NAME may include subfolders, which are the same in both. */
#ifndef FOVEA_CLI_DEPTH_TRUTH_H
#define FOVEA_CLI_DEPTH_TRUTH_H

#include "cli/common/cli.h"

/* The folder `images` in `path`, to be freed; NULL if `path` does not have both it and a folder
 * `depth`. */
char *depth_truth_pictures(const char *path);
/* The path, to be freed, of the depth picture for `picture`, a file in the folder `images` of
 * `path`. */
char *depth_truth_path(const char *path, const char *picture);

/* The depths that a model gives for a frame of width x height: one per cell of its grid. */
typedef struct depth_output {
    uint32_t width, height;
    const fovea_plan_info *plan;
    const float *data;
    uint32_t columns, rows;
} depth_output;

/* Collects the pixels of a depth picture, aligned with the frame, that have a depth and that the
 * model saw. *found gets the model's depths, *truth the true ones in metres; `scale` is units per
 * metre. Both arrays need as many elements as the picture has pixels. Returns how many were
 * written. */
size_t depth_truth_pairs(double *found, double *truth, const cli_image *picture, double scale,
                         const depth_output *of);

#endif
