/* sam.h: Segment Anything. Its encoder is a ViT most of whose blocks attend in windows, with
 * relative positions in every score, and a neck of two convolutions. */
#ifndef FOVEA_SRC_MODELS_SAM_H
#define FOVEA_SRC_MODELS_SAM_H

#include "models/model.h"
#include "models/vit/sam_decoder.h"

#define FV_SAM_SIDE_MOST 4096 /* largest side of the position table, in patches */

typedef struct fv_sam_block {
    uint32_t window; /* tokens per side; 0 for attention over all tokens */
    /* q and kv: attention over all tokens; qkv: attention in windows */
    fv_layer ln1, q, kv, qkv, proj;
    /* (2 n - 1, head dimension) for a trained side of n tokens; absent without relative
     * positions. */
    fv_weight rel_pos_h, rel_pos_w;
    fv_layer ln2, fc1, fc2;
} fv_sam_block;

typedef struct fv_sam {
    uint32_t width, depth, heads, hidden, patch;
    uint32_t table_width, table_height;
    float eps; /* epsilon of the blocks' norms */
    fv_layer embed;
    fv_weight table; /* (table_width * table_height, C); may be absent */
    fv_sam_block *block;
    /* The neck: a product, a norm, a 3 x 3 convolution, a norm; or only one norm. */
    fv_layer neck, neck_norm, neck_conv, neck_conv_norm;
    fv_layer head;          /* head on the mean of the neck's rows; may be absent */
    fv_sam_decoder decoder; /* without layers if the checkpoint has none */
} fv_sam;

/* sam_synthetic.c: makes random checkpoints of the published sizes, with transformers' names. */
extern const struct fv_synthetic_list fv_sam_synthetics;

#endif
