/* yolos.h: YOLOS: a ViT with detection tokens, each of which predicts a box and its class. */
#ifndef FOVEA_SRC_MODELS_YOLOS_H
#define FOVEA_SRC_MODELS_YOLOS_H

#include "models/detection.h"
#include "models/vit/vit.h"

#define FV_YOLOS_LAYERS 3 /* layers of a head */

typedef struct fv_yolos {
    fv_vit vit;      /* must be first: a ViT's release function frees these roles */
    uint32_t tokens; /* detection tokens; they are between the class and the patches */
    /* Positions that are added after each block but the last one: those of the class and the
     * detection tokens, and the table of the patches. NULL without them. */
    struct fv_yolos_positions {
        fv_weight prefix, table;
    } * after;
    fv_layer classes[FV_YOLOS_LAYERS], box[FV_YOLOS_LAYERS]; /* absent without heads */
    fv_detection detection;
} fv_yolos;

/* yolos_read.c */
extern const fv_vit_names fv_yolos_names;
fovea_status fv_yolos_read(fovea_model *m, const struct fv_source *source,
                           const struct fv_config *config);
void fv_yolos_release(fovea_model *m);

/* yolos_synthetic.c: makes random checkpoints of the published sizes. */
extern const struct fv_synthetic_list fv_yolos_synthetics;

#endif
