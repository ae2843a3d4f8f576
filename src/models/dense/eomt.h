/* eomt.h: EoMT: a ViT with learned queries, which join the tokens in the last blocks. The queries
 * give the classes and masks of the objects in the picture. */
#ifndef FOVEA_SRC_MODELS_EOMT_H
#define FOVEA_SRC_MODELS_EOMT_H

#include "models/vit/vit.h"

#define FV_EOMT_UPSCALES 8 /* largest number of upscaling layers */

/* Doubles the width and height. */
typedef struct fv_eomt_upscale {
    /* (4 C, C): rows for the upper left, upper right, lower left and lower right part of each
     * pixel */
    fv_layer deconv;
    fv_weight filter; /* (C, 9): depthwise */
    fv_layer norm;
} fv_eomt_upscale;

typedef struct fv_eomt {
    fv_vit vit;      /* must be first: a ViT's release function frees these roles */
    uint32_t joined; /* number of last blocks that process the queries */
    bool *masked;    /* masked[i]: in block i, queries attend only inside their masks */
    fv_weight query; /* (queries, C) */
    fv_layer classes;
    fv_layer mask[3]; /* MLP of the queries, whose products with pixels give the masks */
    uint32_t upscales;
    fv_eomt_upscale upscale[FV_EOMT_UPSCALES];
} fv_eomt;

/* eomt_read.c */
bool fv_eomt_owns(const char *model_type);
const fv_vit_names *fv_eomt_names(const char *model_type);
fovea_status fv_eomt_read(fovea_model *m, const struct fv_source *source,
                          const struct fv_config *config);
void fv_eomt_release(fovea_model *m);

/* eomt_synthetic.c: makes random checkpoints of the published sizes. */
extern const struct fv_synthetic_list fv_eomt_synthetics;

#endif
