/* vitpose.h: ViTPose: a ViT, and a head that gives each key point a heat map. */
#ifndef FOVEA_SRC_MODELS_VITPOSE_H
#define FOVEA_SRC_MODELS_VITPOSE_H

#include "models/vit/backbone.h"

typedef struct fv_vitpose {
    fv_backbone backbone;
    uint32_t scale; /* of the simple head: cells of its heat maps per patch, in each direction */
    fv_layer deconv[2];   /* of the classic head; absent: the head is simple */
    uint32_t channels[2]; /* of their outputs */
    fv_layer maps;        /* a 3 x 3 convolution; in the classic head 1 x 1 */
} fv_vitpose;

/* vitpose_synthetic.c: random checkpoints of the published sizes. */
const char *fv_vitpose_synthetic(size_t index);
fovea_status fv_vitpose_make_synthetic(struct json_t **config, struct fv_source *source,
                                       const char *name);

#endif
