/* depth_anything.h: Depth Anything and DPT: a ViT, DPT's neck, and a head that computes a depth per
 * pixel. */
#ifndef FOVEA_SRC_MODELS_DEPTH_ANYTHING_H
#define FOVEA_SRC_MODELS_DEPTH_ANYTHING_H

#include "models/vit/backbone.h"
#include "models/vit/dpt.h"

typedef struct fv_depth_anything {
    fv_backbone backbone;
    fv_dpt neck;
    fv_layer projection; /* of the fused features; only in some DPTs */
    fv_layer conv1, conv2, conv3;
    uint32_t act;    /* activation of the depth: FV_EPI_* */
    fv_weight scale; /* scale of the depth; absent for 1 */
} fv_depth_anything;

/* depth_anything_synthetic.c: makes random checkpoints of the published sizes. */
extern const struct fv_synthetic_list fv_depth_anything_synthetics, fv_dpt_synthetics;

#endif
