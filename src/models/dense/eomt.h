/* eomt.h: EoMT: a ViT whose learned queries join the tokens for the last blocks, and become the
 * classes and the masks of what is in the picture.
 */
#ifndef FOVEA_SRC_MODELS_EOMT_H
#define FOVEA_SRC_MODELS_EOMT_H

#include "models/vit/vit.h"

#define FV_EOMT_UPSCALES 8 /* at most */

/* Pixels become 2 x 2. */
typedef struct fv_eomt_upscale {
    fv_layer
        deconv; /* (4 C, C): rows of the pixel's upper left part, upper right, lower left, .. */
    fv_weight filter; /* (C, 9): depthwise */
    fv_layer norm;
} fv_eomt_upscale;

typedef struct fv_eomt {
    fv_vit vit;      /* first: what releases a ViT's roles releases these */
    uint32_t joined; /* blocks that the queries go through, the last ones */
    bool *masked;    /* of each of them: its queries attend inside the masks made of them before */
    fv_weight query; /* (queries, C) */
    fv_layer classes;
    fv_layer mask[3]; /* the MLP of the queries that masks are products with */
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
