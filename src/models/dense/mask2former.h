/* mask2former.h: Mask2Former over a ViT or a pyramid: a pixel decoder with deformable attention to
 * three levels, and a decoder whose queries attend inside their masks. */
#ifndef FOVEA_SRC_MODELS_MASK2FORMER_H
#define FOVEA_SRC_MODELS_MASK2FORMER_H

#include "models/dense/decoder.h"
#include "models/synthetic.h"
#include "models/vit/backbone.h"

enum {
    FV_MASK2FORMER_LEVELS = 3,  /* levels that the queries attend to; 0 is the coarsest */
    FV_MASK2FORMER_POINTS = 4,  /* samples of a head in each level */
    FV_MASK2FORMER_LAYERS = 64, /* most layers of each decoder */
};
#define FV_MASK2FORMER_EPS 1e-5f /* epsilon of all norms after the backbone */

/* A layer of the pixel decoder. */
typedef struct fv_mask2former_pixel_layer {
    fv_layer sampling; /* offset rows, then attention weight rows */
    fv_layer values, out, fc1, fc2;
    fv_layer norm[2]; /* after the attention and the MLP */
} fv_mask2former_pixel_layer;

/* A layer of the decoder of queries. */
typedef struct fv_mask2former_layer {
    fv_layer cross_q, cross_k, cross_v, cross_out;
    fv_layer self_qk, self_v, self_out; /* self_qk: Q rows, then K rows */
    fv_layer fc1, fc2;
    fv_layer norm[3]; /* of cross-attention, self-attention and the MLP */
} fv_mask2former_layer;

/* The decoders. They read features of the backbone, its taps, from the finest to the coarsest. */
typedef struct fv_mask2former {
    uint32_t taps, channels[FV_BACKBONE_TAPS]; /* channels of tap i */
    /* The pixel decoder. */
    uint32_t width, heads;
    fv_conv_module input[FV_MASK2FORMER_LEVELS];
    fv_weight level; /* (levels, width): added to the positions of each level */
    fv_mask2former_pixel_layer *pixel_layer;
    uint32_t pixel_layers;
    uint32_t finer; /* number of finer levels, which are made from the first taps */
    fv_conv_module lateral[FV_BACKBONE_TAPS], output[FV_BACKBONE_TAPS]; /* of tap i */
    fv_layer features; /* features of each pixel, whose products with queries give masks */
    /* The decoder of queries. */
    uint32_t query_width, act;                /* act: FV_EPI_* */
    bool pre_norm;                            /* norms precede the layers' parts */
    fv_weight query, position;                /* (queries, query_width) */
    fv_weight level_rows;                     /* (levels, query_width): added to each level */
    fv_layer level_in[FV_MASK2FORMER_LEVELS]; /* from width to query_width; may be absent */
    fv_mask2former_layer *layer;
    uint32_t layers;
    fv_layer norm, mask[3], classes;
} fv_mask2former;

/* Mask2Former over a ViT. */
typedef struct fv_mask2former_vit {
    fv_backbone backbone;
    fv_mask2former decoders;
} fv_mask2former_vit;

/* mask2former_read.c */
fovea_status fv_mask2former_read_vit(fovea_model *m, const struct fv_source *source,
                                     const struct fv_config *config);
void fv_mask2former_release_vit(fovea_model *m);
/* Calls `visit` with every weight of the decoders that has the purpose. */
void fv_mask2former_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                            void *ctx);
/* mask2former_new.c: makes a ViT the backbone of a new Mask2Former: names its tensors and describes
 * it as the backbone of one. Does nothing if it is one already. */
fovea_status fv_mask2former_begin(fovea_model *m, const struct fv_config *config);
/* Adds the tensors of new decoders unless they exist, with the classes of the model's additions. */
fovea_status fv_mask2former_put(fv_tensor_reader *t, const struct fv_config *config);
/* Reads the decoders over a pyramid's stages, which are the reader's levels. */
fovea_status fv_mask2former_read(fv_decoder_reader *r, const struct fv_config *config);
void fv_mask2former_release(fv_decoder *d);

/* mask2former_queries.c: emits the steps from the levels and the features of pixels to the
 * outputs. */
void fv_mask2former_decode(const fv_mask2former *d, struct fv_builder *b,
                           const fv_level level[FV_MASK2FORMER_LEVELS], const fv_level *features);
/* mask2former.c: emits (y, x) of the centres of a grid's cells, as sines read them, and returns
 * their sines, `width` columns. */
struct fv_view fv_mask2former_sines(struct fv_builder *b, const fv_grid *grid, uint32_t width);

/* mask2former_synthetic.c: makes random checkpoints. */
extern const struct fv_synthetic_list fv_mask2former_synthetics;
/* Adds the decoders' tensors, for four taps of these channels. */
void fv_mask2former_synthetic(fv_synthetic *m, const uint32_t channels[4]);
/* Returns the configuration of the whole, and takes that of the backbone. */
json_t *fv_mask2former_synthetic_config(json_t *backbone);

#endif
