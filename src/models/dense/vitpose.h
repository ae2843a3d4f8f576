/* vitpose.h: ViTPose: a ViT, and a head that computes a heat map per key point. */
#ifndef FOVEA_SRC_MODELS_VITPOSE_H
#define FOVEA_SRC_MODELS_VITPOSE_H

#include "models/vit/backbone.h"

typedef struct fv_vitpose {
    fv_backbone backbone;
    uint32_t scale;       /* simple head: cells of its heat maps per patch, in each direction */
    fv_layer deconv[2];   /* classic head; absent in the simple head */
    uint32_t channels[2]; /* output channels of `deconv` */
    fv_layer maps;        /* a 3 x 3 convolution; 1 x 1 in the classic head */
} fv_vitpose;

/* vitpose_synthetic.c: makes random checkpoints of the published sizes. */
extern const struct fv_synthetic_list fv_vitpose_synthetics;

#endif
