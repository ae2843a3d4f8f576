/* box_crop.h: cuts out the part of a frame around a person, with the arithmetic of transformers'
 * VitPoseImageProcessor, which rounds intermediate results to float32. */
#ifndef FOVEA_SRC_BOX_CROP_H
#define FOVEA_SRC_BOX_CROP_H

#include <fovea/crops.h>

#include "base/status.h"

/* Centre and size, in pixels of the frame, of the part of the frame that a box selects. */
typedef struct fv_box_view {
    float middle[2], scale[2]; /* scale: the size in units of FV_BOX_UNIT pixels */
} fv_box_view;
#define FV_BOX_UNIT 200

/* Computes the view of a box, for results of width x height pixels. Returns FOVEA_EINVAL if the box
 * has no area. */
fovea_status fv_box_view_of(fv_box_view *out, const fovea_box *box, uint32_t width,
                            uint32_t height);

/* Position and scale of the result in the frame, as in fovea_plan_info. */
typedef struct fv_box_place {
    double left, top, scale_x, scale_y;
} fv_box_place;
fv_box_place fv_box_view_place(const fv_box_view *view, uint32_t width, uint32_t height);

#endif
