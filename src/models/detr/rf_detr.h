/* rf_detr.h: LW-DETR and its successor RF-DETR: a ViT in which most blocks attend in windows, a
 * projector of the outputs of some blocks (taps), and a decoder with deformable attention. The
 * decoder's queries begin at the cells with the best scores. RF-DETR's ViT is a DINOv2, and its
 * models for instance segmentation also have a head for masks. */
#ifndef FOVEA_SRC_MODELS_RF_DETR_H
#define FOVEA_SRC_MODELS_RF_DETR_H

#include "models/detection.h"
#include "models/vit/vit.h"

#define FV_RF_DETR_TAPS 16

/* A convolution, and the norm after it. LW-DETR's BatchNorm is folded into the convolution, so that
 * it has a bias and `norm` is absent. */
typedef struct fv_rf_detr_conv {
    fv_layer conv;
    fv_layer norm;
} fv_rf_detr_conv;

typedef struct fv_rf_detr_layer {
    fv_layer qk, v, self_out; /* qk: applied to rows with positions; Q rows, then K rows */
    fv_layer sampling;        /* offset rows, then attention weight rows */
    fv_layer values, cross_out;
    fv_layer fc1, fc2;
    fv_layer norm[3]; /* after self-attention, cross-attention and the MLP */
} fv_rf_detr_layer;

/* A block of the head for masks: x + act(mix(norm(filter x))). */
typedef struct fv_rf_detr_mask_block {
    fv_layer filter; /* (width, 9): depthwise */
    fv_layer norm, mix;
} fv_rf_detr_mask_block;

/* The head for masks. Its rows of pixels and of queries have one more column, so that their product
 * also adds the head's bias: it is 1 in rows of pixels, and the bias in rows of queries. */
typedef struct fv_rf_detr_masks {
    uint32_t ratio; /* sides of the picture divided by those of the masks; 0: no masks */
    uint32_t act;   /* FV_EPI_* */
    fv_rf_detr_mask_block *block; /* one per layer of the decoder */
    fv_layer pixels;              /* (width + 1, width) */
    fv_layer norm, fc1, fc2;      /* MLP of the queries */
    fv_layer queries;             /* (width + 1, width) */
} fv_rf_detr_masks;

typedef struct fv_rf_detr { /* More than 25 fields: the weights and sizes of a model */
    fv_vit vit;             /* the backbone */
    bool lw;                /* LW-DETR */
    uint32_t windows;       /* windows per side of the grid */
    uint8_t *global;        /* global[i] is 1 if block i attends over all windows */
    bool tap_norm;
    uint32_t tap[FV_RF_DETR_TAPS], taps; /* taps: numbers of the blocks, ascending */
    /* The projector (C2f): a 1x1 convolution to two halves; pairs of 3x3 convolutions in sequence;
     * a 1x1 convolution of the halves and the outputs of all pairs. */
    uint32_t width, half; /* channels of its output; channels of a pair's output */
    uint32_t act;         /* FV_EPI_* */
    float eps;            /* epsilon of all norms of the projector except the last */
    fv_rf_detr_conv first, last;
    fv_rf_detr_conv (*pair)[2];
    uint32_t pairs;
    fv_layer projected; /* the last norm of the projector */
    /* Layers that score the projector's rows and propose boxes, before the best are chosen. */
    fv_layer proposal, proposal_norm, proposal_class, proposal_box[3];
    /* The decoder. */
    uint32_t queries, self_heads, cross_heads, points, decoder_act;
    fv_weight query, reference; /* (queries, width), (queries, 4) */
    fv_layer position[2];
    fv_rf_detr_layer *layer;
    uint32_t layers;
    fv_layer norm, classes, box[3];
    fv_rf_detr_masks masks;
    fv_detection detection;
} fv_rf_detr;

#define FV_RF_DETR_NORM_EPS 1e-5f      /* epsilon of the norms of the decoder and of proposals */
#define FV_RF_DETR_PROJECTED_EPS 1e-6f /* epsilon of the projector's last norm */

/* rf_detr_names.c: the names of tensors: RF-DETR's, then LW-DETR's. */
typedef struct fv_detr_names {
    const char *model; /* for messages */
    const char *backbone_type;
    enum fv_vit_kind kind; /* of the backbone */
    const char *windows;   /* field that lists the blocks that attend in windows */
    /* Prefixes. All projectors have `projectors`; the one of the only scale has `projector`. */
    const char *backbone, *projectors, *projector, *transformer, *decoder;
    /* Stems in the projector. `pair` is the format of a pair's first convolution, `pair_part` that
     * of a convolution of a pair with its norm. norm: the norm after a convolution. */
    const char *first, *last, *pair, *pair_part, *projected, *norm;
    const char *query, *reference; /* the learned rows and boxes of the queries */
    /* Of a layer of the decoder. q is NULL if q, k and v are one tensor. */
    const char *q, *k, *v, *self_out, *norms[3], *fc1, *fc2;
    const char *decoder_norm;
} fv_detr_names;
extern const fv_detr_names fv_detr_names_of[];

/* rf_detr_read.c */
fovea_status fv_rf_detr_read(fovea_model *m, const struct fv_source *source,
                             const struct fv_config *config);

/* rf_detr_decoder.c: emits the steps from the projector's rows, `memory`, to the outputs. */
void fv_rf_detr_decode(const fv_rf_detr *d, struct fv_builder *b, struct fv_view memory);

/* rf_detr_masks.c: emits the masks of the queries, if they are asked for. `memory` has the
 * projector's rows, and `queries` the rows of the decoder's last norm. */
void fv_rf_detr_emit_masks(const fv_rf_detr *d, struct fv_builder *b, struct fv_view memory,
                           struct fv_view queries);
/* Returns the grid of the masks; a side may be 0 if the picture is too small. */
struct fv_grid fv_rf_detr_mask_grid(const fv_rf_detr *d, const struct fv_grid *patches);

/* rf_detr_synthetic.c: makes random checkpoints of the published sizes. */
extern const struct fv_synthetic_list fv_rf_detr_synthetics, fv_lw_detr_synthetics;

#endif
