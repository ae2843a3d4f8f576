/* region_masks.h: the pixels of the masks of an R-CNN's boxes. A mask has probabilities of S x S
 * cells of its box, which are interpolated between the cells' centres, with zeros around the box,
 * as by mmdetection's FCNMaskHead. Pixels of at least 0.5 are inside. */
#ifndef FOVEA_SRC_RUN_REGION_MASKS_H
#define FOVEA_SRC_RUN_REGION_MASKS_H

#include "run/task_output.h"

typedef struct fv_region_masks {
    const fovea_plan_info *info;
    uint32_t width, height;      /* of the frame */
    uint32_t size;               /* cells along a side of a box */
    fv_task_output boxes, masks; /* edges in pixels of the picture; probabilities */
    float *line;                 /* scratch: `size` numbers */
    uint32_t *owner;             /* scratch: a row of the frame */
} fv_region_masks;

fovea_status fv_region_masks_begin(fv_region_masks *out, const fovea_plan *p,
                                   const fovea_output *outs);

/* Called for a pixel of the frame that is inside the mask of box kept[k]. */
typedef void fv_region_pixel(void *ctx, uint32_t x, uint32_t y, uint32_t k);
/* Calls `see` for all pixels that are inside the masks of the n boxes kept[].query, row by row, and
 * in a row from the last box to the first. With `first`, a pixel is only inside the first of its
 * masks. Boxes without area have no pixels. */
void fv_region_masks_see(const fv_region_masks *m, const fv_query_mask *kept, uint32_t n,
                         bool first, fv_region_pixel *see, void *ctx);

#endif
