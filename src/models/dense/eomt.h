/* eomt.h: EoMT: a ViT with learned queries, which join the tokens in the last blocks and give the
 * classes and the masks of what is in the picture. */
#ifndef FOVEA_SRC_MODELS_EOMT_H
#define FOVEA_SRC_MODELS_EOMT_H

#include "models/vit/vit.h"

#define FV_EOMT_UPSCALES 8 /* at most */

/* Pixels become 2 x 2. */
typedef struct fv_eomt_upscale {
    fv_layer deconv;  /* (4 C, C): rows for the upper left part of the pixel, upper right, lower
                         left, lower right */
    fv_weight filter; /* (C, 9): depthwise */
    fv_layer norm;
} fv_eomt_upscale;

typedef struct fv_eomt {
    fv_vit vit;      /* must be first: a ViT's release function frees these roles */
    uint32_t joined; /* number of last blocks that the queries go through */
    bool *masked;    /* masked[i]: in that block, queries attend only inside their masks */
    fv_weight query; /* (queries, C) */
    fv_layer classes;
    fv_layer mask[3]; /* MLP of the queries, whose products with pixels are masks */
    uint32_t upscales;
    fv_eomt_upscale upscale[FV_EOMT_UPSCALES];
} fv_eomt;

/* eomt_read.c */
bool fv_eomt_owns(const char *model_type);
fovea_status fv_eomt_read(fovea_model *m, const struct fv_source *source,
                          const struct fv_config *config);
void fv_eomt_release(fovea_model *m);

/* eomt_synthetic.c: random checkpoints of the published sizes. */
const char *fv_eomt_synthetic(size_t index);
fovea_status fv_eomt_make_synthetic(struct json_t **config, struct fv_source *source,
                                    const char *name);

#endif
