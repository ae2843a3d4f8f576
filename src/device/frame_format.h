/* frame_format.h: gets the planes of a frame from its format and size. */
#ifndef FOVEA_DEVICE_FRAME_FORMAT_H
#define FOVEA_DEVICE_FRAME_FORMAT_H

#include <fovea/plans.h>

#include "base/status.h"
#include "ops/kernel.h"

enum { FV_FRAME_PLANES = 2 };

typedef struct fv_plane_shape {
    uint32_t rows, cols; /* number of rows, and elements of a row */
    enum fv_type type;
} fv_plane_shape;

/* Fills in the planes, and returns their number. `format` must be valid. */
uint32_t fv_frame_planes(fv_plane_shape out[FV_FRAME_PLANES], fovea_pixel_format format,
                         uint32_t width, uint32_t height);

#endif
