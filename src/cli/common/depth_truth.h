/* depth_truth.h: depth pictures of a folder: DIR/depth/NAME.png is of DIR/images/NAME.jpg, where
 * NAME may be in the same folders of both. */
#ifndef FOVEA_CLI_DEPTH_TRUTH_H
#define FOVEA_CLI_DEPTH_TRUTH_H

#include "cli/common/cli.h"

/* The folder of pictures in `path` if it has that and one of depths; NULL: not so. To be freed. */
char *depth_truth_pictures(const char *path);
/* What cli_depth_read reads for a picture in that folder of `path`. To be freed. */
char *depth_truth_path(const char *path, const char *picture);

/* A depth in each cell of the grid that a model gives for a frame of width x height. */
typedef struct depth_output {
    uint32_t width, height;
    const fovea_plan_info *plan;
    const float *data;
    uint32_t columns, rows;
} depth_output;

/* Takes the pixels of a depth picture, which shows the same as the frame, whose depth is known and
 * that the model saw: *found gets the depths that were found, *truth the true ones in metres of
 * `scale` units. Both arrays have as many elements as the picture has pixels; returns the number
 * that was written. */
size_t depth_truth_pairs(double *found, double *truth, const cli_image *picture, double scale,
                         const depth_output *of);

#endif
