/* dpt.h: DPT's neck, of dense prediction transformers: features of several depths of a ViT are
 * resized to different grids and fused, from the coarsest to the finest. */
#ifndef FOVEA_SRC_MODELS_DPT_H
#define FOVEA_SRC_MODELS_DPT_H

#include "checkpoint/config.h"
#include "graph/emit.h"
#include "models/tensor_reader.h"

#define FV_DPT_LEVELS 8

/* x + conv2 relu(conv1 relu(x)) */
typedef struct fv_dpt_unit {
    fv_layer conv1, conv2;
} fv_dpt_unit;

/* What a level does with the class token. */
enum fv_dpt_readout {
    FV_DPT_IGNORE,
    FV_DPT_ADD,     /* adds it to each patch */
    FV_DPT_PROJECT, /* computes each patch from the patch and the class token, with GELU */
};

typedef struct fv_dpt_level {
    fv_layer readout; /* (width, 2 width), with FV_DPT_PROJECT */
    fv_layer project; /* projects the rows of a tap */
    /* the level's grid is `up` times finer than that of the patches, or `down` times coarser */
    uint32_t up, down;
    fv_layer resize;     /* a transposed or strided convolution; may be absent */
    fv_layer conv;       /* convolution to the width of the fusion */
    fv_dpt_unit skipped; /* unit of this level's features; absent at the coarsest level */
    fv_dpt_unit fused;
    fv_layer out;
} fv_dpt_level;

typedef struct fv_dpt {
    uint32_t levels, width; /* width: channels of the fusion */
    enum fv_dpt_readout readout;
    /* Each level has twice the size of the coarser one, and its features are resized to that.
     * Otherwise the coarser level is resized to the grid of the features. */
    bool doubles;
    fv_dpt_level level[FV_DPT_LEVELS];
} fv_dpt;

/* Reads the tensors under `prefix` + "neck.", for a ViT of `width` channels. Sizes in `config` must
 * agree with those of the tensors. `readout` and `doubles` must be set. */
fovea_status fv_dpt_read(fv_dpt *d, fv_tensor_reader *t, const char *prefix,
                         const fv_config *config, uint32_t width);
/* Visits every weight, for training. */
void fv_dpt_weights(const fv_dpt *d, fv_weight_visit *visit, void *ctx);

/* Emits the projection of level i's tap. `rows` has all tokens; the result has those, too, with
 * FV_DPT_IGNORE, and else only the patches. */
fv_view fv_dpt_project(const fv_dpt *d, fv_builder *b, uint32_t i, fv_view rows);
/* Emits the fusion of all levels' projections into features of `width` columns. *grid is the grid
 * of the patches, and is set to the grid of the features. */
fv_view fv_dpt_fuse(const fv_dpt *d, fv_builder *b, const fv_view *projected, fv_grid *grid);

/* Emits a convolution of size 3 over a grid, plus `res` unless that is NULL. */
fv_view fv_dpt_conv(fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                    const fv_grid *grid, uint32_t act, const fv_view *res);
/* Emits a bilinear resize with aligned corners, plus `res` unless its id is FV_NO_VALUE. */
fv_view fv_dpt_resize(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                      const fv_grid *to, uint32_t channels, fv_view res);

#endif
