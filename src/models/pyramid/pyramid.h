/* pyramid.h: MAViT and NaLaFormer: a convolutional stem, and stages of blocks on increasingly
 * coarse grids. fv_pyramid_form has the differences between the two families. */
#ifndef FOVEA_SRC_MODELS_PYRAMID_H
#define FOVEA_SRC_MODELS_PYRAMID_H

#include "graph/emit.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "models/tensor_reader.h"

#define FV_PYRAMID_MOST 16 /* stages */
/* number of convolutions, which reduce the picture's sides to a quarter */
#define FV_PYRAMID_STEM 4

typedef struct fv_pyramid_block {
    bool linear;   /* the family's mechanism, instead of softmax */
    fv_layer cpe1; /* position encoding with the residual folded in: (C, 9) */
    fv_layer ln1;
    const fv_tensor *fused_w, *fused_b; /* (4C, C): q, k, v and gate rows */
    fv_layer lepe;                      /* (C, 25) */
    fv_layer inner;                     /* LayerNorm before the gate; may be absent */
    fv_layer proj;                      /* LayerScale is folded in */
    fv_layer cpe2;                      /* may be absent */
    fv_layer ln2;
    fv_layer fc1, dw, fc2; /* residual folded into dw; LayerScale folded into fc2 */
} fv_pyramid_block;

typedef struct fv_pyramid_stage {
    uint32_t width, depth, heads, hidden;
    fv_pyramid_block *block; /* `depth` blocks */
    fv_layer norm;           /* norm of the stage's output as a feature; may be absent */
    /* convolution to the next stage, with BatchNorm folded in; absent in the last stage */
    fv_layer down;
} fv_pyramid_stage;

typedef struct fv_pyramid {
    fv_layer stem[FV_PYRAMID_STEM]; /* BatchNorm is folded in */
    uint32_t stages;
    fv_pyramid_stage *stage;
    fv_layer proj; /* BatchNorm is folded in; absent in backbones */
    fv_layer head; /* may be absent */
} fv_pyramid;

/* The inputs of a family's `mix`: the part of a block between its attention and its projection. */
typedef struct fv_pyramid_mix {
    fv_builder *b;
    const fv_pyramid_block *w;
    fv_grid grid;
    uint32_t width;
    fv_view attention, v, gate;
} fv_pyramid_mix;

/* One size of synthetic checkpoints. */
#define FV_PYRAMID_STAGES 4
typedef struct fv_pyramid_spec {
    const char *name;
    uint32_t width[FV_PYRAMID_STAGES], depth[FV_PYRAMID_STAGES], heads[FV_PYRAMID_STAGES];
    double ratio; /* ratio of the hidden width to the width */
    uint32_t projection;
} fv_pyramid_spec;

/* The differences between families: fv_family.form. */
typedef struct fv_pyramid_form {
    const char *type;        /* model_type */
    uint32_t mech;           /* mechanism of 'l' blocks */
    const char *cpe1, *cpe2; /* stems of names; cpe2 is NULL if there is none */
    /* stems of names in a block; inner is NULL if there is no such norm */
    const char *fused, *inner, *proj;
    /* Emits the steps from the attention to the projection's input. */
    fv_view (*mix)(const fv_pyramid_mix *m);
} fv_pyramid_form;

/* pyramid_read.c: reads the roles from the names and shapes of tensors. */
fovea_status fv_pyramid_read(fovea_model *m, const struct fv_source *source,
                             const struct fv_config *config);
void fv_pyramid_release(fovea_model *m);

/* pyramid.c: emits the steps from the roles. */
fovea_status fv_pyramid_grid(const fovea_model *m, fv_emit_options *o);
fovea_status fv_pyramid_emit(const fovea_model *m, fv_builder *b);
/* Visits the weights with a purpose. These are only weights of the head, because no others can be
 * trained. */
void fv_pyramid_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                        void *ctx);
/* Emits (attention + local position encoding of v) * gate, and returns its rows. If the gate's id
 * is FV_NO_VALUE, there is no gate. */
fv_view fv_pyramid_lepe(const fv_pyramid_mix *m, fv_view gate);

/* pyramid_synthetic.c: makes a checkpoint of a size with random weights. */
json_t *fv_pyramid_make_synthetic(fv_synthetic *m, const void *size);

/* Defines the family `id`, whose fv_pyramid_form is `form`, and whose sizes are the array
 * `sizes`, both in the same file. */
#define FV_PYRAMID_FAMILY(id, mechanism)                                                           \
    static const fv_synthetic_list synthetics = {FV_SYNTHETIC_SIZES(sizes),                        \
                                                 .make = fv_pyramid_make_synthetic};               \
    FV_DEFINE_FAMILY(id, .name = #id, .types = #id, .attention = mechanism, .form = &form,         \
                     .read = fv_pyramid_read, .grid = fv_pyramid_grid, .emit = fv_pyramid_emit,    \
                     .weights = fv_pyramid_weights, .release = fv_pyramid_release,                 \
                     .synthetic = &synthetics, .decodes = true)

#endif
