/* box_crop.h: the part of a frame around a person, in the arithmetic of transformers'
 * VitPoseImageProcessor, which rounds to single precision on its way. */
#ifndef FOVEA_SRC_BOX_CROP_H
#define FOVEA_SRC_BOX_CROP_H

#include <fovea/crops.h>

#include "base/status.h"

/* Middle and size of what is seen of a box, in pixels of the frame. */
typedef struct fv_box_view {
    float middle[2], scale[2]; /* scale: the size in units of FV_BOX_UNIT pixels */
} fv_box_view;
#define FV_BOX_UNIT 200

/* For pictures of width x height. EINVAL for a box that is none. */
fovea_status fv_box_view_of(fv_box_view *out, const fovea_box *box, uint32_t width,
                            uint32_t height);

/* Position of the picture in the frame: fovea_plan_info. */
typedef struct fv_box_place {
    double left, top, scale_x, scale_y;
} fv_box_place;
fv_box_place fv_box_view_place(const fv_box_view *view, uint32_t width, uint32_t height);

#endif
