/* sam2.h: SAM 2: Hiera's encoder, whose blocks attend in windows, with a pyramid of features; and
 * SAM's decoder of masks. */
#ifndef FOVEA_SRC_MODELS_SAM2_H
#define FOVEA_SRC_MODELS_SAM2_H

#include "models/vit/sam_decoder.h"

enum { FV_SAM2_STAGES = 4, FV_SAM2_PATCH = 7, FV_SAM2_STRIDE = 4 };
/* The part of a picture that is seen has sides that are multiples of this number, so that each grid
 * has exactly twice the sides of the next one. */
enum { FV_SAM2_MULTIPLE = FV_SAM2_STRIDE << (FV_SAM2_STAGES - 1) };

typedef struct fv_sam2_block {
    uint32_t in, width, heads; /* channels before and after the block */
    uint32_t window;           /* tokens per side; 0 for attention over all tokens */
    bool pools;                /* queries are pooled to a grid of half the sides */
    /* qkv if queries in windows are not pooled, else q and kv */
    fv_layer ln1, qkv, q, kv, proj;
    fv_layer skip; /* of the residual, if the number of channels changes */
    fv_layer ln2, fc1, fc2;
} fv_sam2_block;

typedef struct fv_sam2 {
    uint32_t width[FV_SAM2_STAGES], heads[FV_SAM2_STAGES], depth[FV_SAM2_STAGES];
    uint32_t window[FV_SAM2_STAGES];
    uint32_t features; /* channels of the features */
    float eps;
    fv_layer embed;
    fv_weight positions; /* (table_height * table_width, C): resized to the grid */
    uint32_t table_width, table_height;
    fv_weight tile; /* (window * window, C): repeated over the grid */
    uint32_t blocks;
    fv_sam2_block *block;
    /* From the channels of a stage to those of the features. With a decoder, the first two go to
     * the decoder's finer features directly, and the third adds the row for no memory. */
    fv_layer lateral[FV_SAM2_STAGES];
    fv_sam_decoder decoder; /* without layers if the checkpoint has none */
} fv_sam2;

/* Returns the name of the output with the features of level i, from 0, the finest. */
const char *fv_sam2_feature(const fv_sam2 *s, uint32_t i);

/* sam2_read.c: reads the roles from the names and shapes of tensors. */
fovea_status fv_sam2_read(fovea_model *m, const struct fv_source *source,
                          const struct fv_config *config);
void fv_sam2_release(fovea_model *m);

/* sam2_synthetic.c: makes random checkpoints of the published sizes, with transformers' names. */
extern const struct fv_synthetic_list fv_sam2_synthetics;

#endif
