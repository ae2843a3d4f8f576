/* masks.h: the pixels of a single mask. */
#ifndef FOVEA_SRC_RUN_MASKS_H
#define FOVEA_SRC_RUN_MASKS_H

#include "plan/plan.h"

/* Marks the pixels of the frame that are inside mask `query`, if `inside` is not NULL, and sets the
 * area and the edges of *mask. `outs` are the outputs of the plan of a segmenter. Returns
 * FOVEA_EINVAL if the mask does not exist, or if `capacity` is less than the number of pixels. */
fovea_status fv_masks_draw(const fovea_plan *p, const fovea_output *outs, uint32_t query,
                           fovea_mask *mask, uint8_t *inside, size_t capacity);

#endif
