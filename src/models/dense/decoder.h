/* decoder.h: a neck and a head on the stages of a pyramid: Semantic FPN, UperNet, RetinaNet, Mask
 * R-CNN and Cascade Mask R-CNN, with the configuration and the tensors of mmsegmentation and
 * mmdetection; UperNet and Mask2Former, with those of transformers.
 *
 *     stages, normalised by extra_norms -> neck (FPN, or none) -> decode_head or bbox_head,
 *                                                              or rpn_head -> roi_head
 *
 * A family reads its backbone, then calls fv_decoder_read. When it emits steps, it passes its
 * stages to fv_decoder_emit. */
#ifndef FOVEA_SRC_MODELS_DECODER_H
#define FOVEA_SRC_MODELS_DECODER_H

#include "checkpoint/config.h"
#include "graph/emit.h"
#include "models/detection.h"
#include "models/fields.h"
#include "models/tensor_reader.h"

#define FV_DECODER_WIDTH 65536u /* most channels */

typedef struct fv_conv_module fv_conv_module;

/* A level, which one part outputs and the next part reads: a row of `channels` for each cell of the
 * grid. */
typedef struct fv_level {
    fv_view rows;
    fv_grid grid;
    uint32_t channels;
    /* the last convolution of a neck's output if its steps were not emitted yet, else NULL */
    const fv_conv_module *pending;
    uint32_t index; /* index of that output */
} fv_level;

/* ---- convolution, normalisation, activation (conv_module.c) ---- */

struct fv_conv_module {
    fv_layer l;      /* the convolution, with its batch normalisation folded in */
    uint32_t size;   /* side of the filter: 1 or 3 */
    fv_layer norm;   /* group normalisation of the convolution's output */
    uint32_t groups; /* number of groups; 0 without group normalisation */
    uint32_t act;    /* FV_EPI_RELU or 0 */
};

typedef struct fv_decoder_reader fv_decoder_reader;

/* Reads a module with `channels` inputs and `rows` outputs: tensors name + "conv.", and name +
 * "bn.", "batch_norm." or "gn." if one of these exists. */
fovea_status fv_conv_module_read(fv_conv_module *c, fv_decoder_reader *r, const char *name,
                                 uint32_t rows, uint32_t channels, uint32_t size, uint32_t act);
/* Reads only a convolution: tensors name + "weight" and name + "bias". */
fovea_status fv_conv_plain_read(fv_conv_module *c, fv_tensor_reader *t, const char *name,
                                uint32_t rows, uint32_t channels, uint32_t size);
/* Returns the grid after a 3 x 3 convolution with that stride. */
fv_grid fv_conv_module_grid(const fv_grid *from, uint32_t stride);
/* Emits the module's steps, whose result is written to rows of `out`. The stride is 1 or 2; for a 1
 * x 1 convolution it must be 1. */
void fv_conv_module_write(fv_builder *b, const char *label, const fv_conv_module *c,
                          const fv_level *in, uint32_t stride, fv_view out);
fv_level fv_conv_module_emit(fv_builder *b, const char *label, const fv_conv_module *c,
                             const fv_level *in, uint32_t stride);

/* Emits the steps after the convolution, for `sums` that were computed in another way. */
fv_level fv_conv_module_finish(fv_builder *b, const char *label, const fv_conv_module *c,
                               const fv_level *sums);

/* Visits weight and bias. The module must not have group normalisation, which has no gradient. */
void fv_conv_module_weights(const fv_conv_module *c, fv_weight_visit *visit, void *ctx);

/* Emits a level resized to another grid, plus `res` unless its id is FV_NO_VALUE, written to `out`.
 * `rule` is FV_FLAG_NEAREST or, for bilinear interpolation, FV_FLAG_ALIGN_CORNERS or 0. */
void fv_level_resize(fv_builder *b, const char *label, const fv_level *in, const fv_grid *to,
                     uint32_t rule, fv_view res, fv_view out);
/* Emits to = to + in, where `in` is resized to the grid of `to`. */
void fv_level_add(fv_builder *b, const char *label, const fv_level *in, const fv_level *to,
                  uint32_t rule);

/* ---- reading ---- */

/* Fields of every decode_head of mmsegmentation, from its BaseDecodeHead. */
#define FV_DECODE_HEAD_FIELDS                                                                      \
    "act_cfg align_corners channels dropout_ratio ignore_index in_channels in_index init_cfg "     \
    "loss_decode norm_cfg num_classes sampler conv_cfg={} input_transform=multiple_select"

typedef struct fv_decoder fv_decoder;

/* The data that is needed to read a neck or a head. */
struct fv_decoder_reader {
    fv_tensor_reader t;
    const fv_config *config; /* the whole file */
    fv_decoder *d;
    uint32_t levels, channels[FV_LEVELS]; /* levels that the part may read, and their channels */
    uint32_t norm_groups; /* number of groups of group normalisation in the section being read */
};

/* decoder_config.c: reads section `key` of `from`, whose name in messages is `name`. The section
 * may have only the fields in `list`. */
fovea_status fv_decoder_section(fv_config *out, const fv_decoder_reader *r, const fv_config *from,
                                const char *key, const char *name, const char *list);
/* Returns FOVEA_ENOTSUP unless "norm_cfg" is batch or group normalisation with an epsilon of 1e-5,
 * and "act_cfg" is ReLU. With `plain`, "act_cfg" must be absent instead. `names` are the sections'
 * names in messages. The tensors determine which normalisation there is. Sets r->norm_groups. */
fovea_status fv_decoder_check_convs(fv_decoder_reader *r, const fv_config *c,
                                    const char *const names[2], bool plain);
/* Reads "in_channels" and "in_index" of a decode_head. Sets `index` to the levels that the head
 * reads. */
fovea_status fv_decoder_inputs(uint32_t *index, uint32_t *n, const fv_decoder_reader *r,
                               const fv_config *c);
/* These functions read "num_classes" and "channels" of a head, which must exist. */
fovea_status fv_decoder_classes(uint32_t *classes, const fv_config *c);
fovea_status fv_decoder_channels(uint32_t *channels, const fv_config *c);

/* ---- boxes (anchors.c); `name` is the name of the section in messages ---- */

/* Reads "anchor_generator" of a head for d->levels levels: strides and anchors. */
fovea_status fv_detection_read_anchors(fv_detection *d, const fv_decoder_reader *r,
                                       const fv_config *head, const char *name);
/* Reads "bbox_coder" of a head. */
fovea_status fv_detection_read_coder(fv_detection *d, const fv_decoder_reader *r,
                                     const fv_config *head, const char *name);
/* Reads the threshold of "nms" of a test_cfg. */
fovea_status fv_detection_read_nms(float *threshold, const fv_decoder_reader *r,
                                   const fv_config *test, const char *name);
/* Checks whether the loss of classes uses a sigmoid per class, or softmax, which has an additional
 * output. */
fovea_status fv_detection_check_scores(const fv_config *head, const char *name, bool sigmoid);

/* ---- a neck: FPN (feature_pyramid.c) ---- */

typedef struct fv_feature_pyramid {
    uint32_t first, laterals, outs,
        channels; /* first, laterals: reads levels first to first + laterals - 1 */
    enum fv_extra_levels {
        FV_EXTRA_POOLED,     /* take every second pixel */
        FV_EXTRA_OF_INPUT,   /* convolutions of stride 2, the first on the last input */
        FV_EXTRA_OF_LATERAL, /* convolutions of stride 2, the first on the last lateral */
        FV_EXTRA_OF_OUTPUT,  /* convolutions of stride 2, the first on the last output */
    } extra;
    uint32_t rule; /* how the level above is resized before it is added; see fv_level_resize */
    fv_conv_module lateral[FV_LEVELS], conv[FV_LEVELS];
} fv_feature_pyramid;

/* Reads the neck, and replaces the reader's levels with the neck's outputs. */
fovea_status fv_feature_pyramid_read(fv_feature_pyramid *f, fv_decoder_reader *r,
                                     const fv_config *neck);
/* Emits the neck's steps, and replaces the levels with the outputs. The last convolution of each
 * output stays pending. */
void fv_feature_pyramid_emit(const fv_feature_pyramid *f, fv_builder *b, fv_level level[FV_LEVELS]);
void fv_feature_pyramid_weights(const fv_feature_pyramid *f, fv_weight_visit *visit, void *ctx);
/* Emits the pending convolution of a level, if there is one. A head calls this function immediately
 * before it reads a level, so that the convolution's output need not be stored as a whole
 * (plan/band.h). */
fv_level fv_feature_pyramid_level(fv_builder *b, const fv_level *level);

/* ---- heads ---- */

typedef struct fv_decoder_head {
    /* type of the section in config.json; or of the whole model, if its section "backbone_config"
     * describes the pyramid */
    const char *type;
    const char *section;  /* "decode_head", "bbox_head" or "roi_head"; or NULL */
    const char *backbone; /* without a section: prefix of the pyramid's tensors */
    const char *last;     /* stem of the last layer's tensors */
    /* names of the outputs, ended by NULL; none if the head finds boxes in levels */
    const char *outputs[3];
    /* `head` is the section, or the whole configuration. */
    fovea_status (*read)(fv_decoder_reader *r, const fv_config *head);
    /* Emits the steps. It must get each level that it reads from fv_feature_pyramid_level. */
    void (*emit)(const fv_decoder *d, fv_builder *b, const fv_level *level);
    /* Visits every weight of the head. NULL if the head cannot be trained. */
    void (*weights)(const fv_decoder *d, fv_weight_visit *visit, void *ctx);
    void (*release)(fv_decoder *d); /* frees memory of the head, also after `read` has failed; or
                                       NULL */
} fv_decoder_head;

/* Returns the name of a head in messages. */
static inline const char *fv_decoder_head_name(const fv_decoder_head *h)
{
    return h->section ? h->section : h->type;
}

extern const fv_decoder_head fv_head_semantic_fpn, fv_head_uper_net, fv_head_retina_net,
    fv_head_uper_net_of_transformers, fv_head_mask2former, fv_head_mask_rcnn, fv_head_cascade_rcnn;

#define FV_DOUBLINGS 8 /* most doublings until a level has the size of the first */
typedef struct fv_semantic_fpn {
    uint32_t levels, index[FV_LEVELS], channels;
    uint32_t convs[FV_LEVELS]; /* number of convolutions of each level */
    bool doubled[FV_LEVELS];   /* whether the size is doubled after a level's convolutions */
    uint32_t rule;             /* fv_level_resize */
    fv_conv_module conv[FV_LEVELS][FV_DOUBLINGS], classify;
} fv_semantic_fpn;

#define FV_POOLS 8
typedef struct fv_uper_net {
    uint32_t levels, index[FV_LEVELS], channels;
    uint32_t pools, pool[FV_POOLS]; /* number of poolings; number of areas along each side */
    uint32_t rule;                  /* fv_level_resize */
    fv_conv_module pooled[FV_POOLS], bottleneck, lateral[FV_LEVELS], conv[FV_LEVELS], fuse,
        classify;
} fv_uper_net;

#define FV_STACKED 16
typedef struct fv_retina_net {
    uint32_t stacked;
    fv_conv_module cls[FV_STACKED], box[FV_STACKED], to_cls, to_box;
} fv_retina_net;

/* Mask R-CNN and Cascade Mask R-CNN (mask_rcnn.c). */
#define FV_REGION_STAGES 3 /* most stages of boxes */
#define FV_REGION_CONVS 8  /* most convolutions, and most linear layers, of a stage */

/* How regions are taken from the levels. */
typedef struct fv_region_features {
    uint32_t size, levels;
    float stride[6], finest_scale;
} fv_region_features;

/* A stage of boxes: convolutions and linear layers, then classes, and changes of the boxes. */
typedef struct fv_box_stage {
    uint32_t convs, layers;
    fv_conv_module conv[FV_REGION_CONVS];
    fv_layer layer[FV_REGION_CONVS]; /* the first is a convolution of all cells of a region */
    fv_layer cls, box;
    float mean[4], std[4];
    bool agnostic; /* the changes are the same for every class */
} fv_box_stage;

/* A stage of masks: convolutions, a transposed one of stride 2, and logits. */
typedef struct fv_mask_stage {
    uint32_t convs;
    fv_conv_module conv[FV_REGION_CONVS];
    fv_layer enlarge, logits;
} fv_mask_stage;

typedef struct fv_mask_rcnn {
    fv_conv_module conv, cls, box; /* of the head for proposals */
    fv_detection proposals;        /* its anchors and settings */
    uint32_t boxes, masks;         /* stages; masks is 0 if there is no head for masks */
    fv_region_features box_features, mask_features;
    fv_box_stage box_stage[FV_REGION_STAGES];
    fv_mask_stage mask_stage[FV_REGION_STAGES];
} fv_mask_rcnn;

/* mask_rcnn_read.c: the head's `read`. */
fovea_status fv_mask_rcnn_read(fv_decoder_reader *r, const fv_config *head);

/* ---- all of it (decoder.c) ---- */

struct fv_decoder {
    /* stages of the backbone that the decoder reads: "out_indices" */
    uint32_t stages, stage[FV_LEVELS];
    const fv_decoder_head *head;
    bool has_neck, group_norms; /* group_norms: the neck or head has group normalisation */
    fv_feature_pyramid neck;
    union {
        fv_semantic_fpn semantic;
        fv_uper_net uper;
        fv_retina_net retina;
        struct fv_mask2former *mask2former; /* mask2former.h */
        fv_mask_rcnn regions;
    };
    fv_detection detection; /* levels is 0 if the head finds no boxes */
};

/* Finds the part of config.json that describes the pyramid: the section "backbone_config" if a head
 * has the type of the whole model, else the whole file. Sets *prefix to the prefix of its tensors'
 * names. `name` is the name of the pyramid in messages. */
fovea_status fv_decoder_backbone(fv_config *out, const char **prefix, const fv_config *config,
                                 const char *name);
/* Reads m->decoder if config.json, which is `config`, describes one. `widths` has the channels of
 * the backbone's n stages. */
fovea_status fv_decoder_read(fovea_model *m, const fv_source *source, const fv_config *config,
                             const uint32_t *widths, uint32_t n);
void fv_decoder_release(fovea_model *m);
/* For training: visits every weight of neck and head. If the head cannot be trained or there is
 * group normalisation, visits nothing and returns false. */
bool fv_decoder_weights(const fv_decoder *d, fv_weight_visit *visit, void *ctx);
/* decoder_new.c: adds Semantic FPN to a backbone without a head, if the model's additions request a
 * head. An existing head gets the additions' number of classes. */
fovea_status fv_decoder_new(fovea_model *m, const fv_source *source, const fv_config *config,
                            const uint32_t *widths, uint32_t n);

#define FV_DECODER_OUTPUTS (2 * FV_LEVELS) /* largest number of outputs */
/* Adds the names of the decoder's outputs, which become the model's main outputs. */
fovea_status fv_decoder_list(fovea_model *m);

/* Returns whether any output of the decoder is requested. */
bool fv_decoder_wants(const fovea_model *m, const fv_builder *b);
/* Emits the decoder's steps. `stage` has all stages of the backbone. */
void fv_decoder_emit(const fovea_model *m, fv_builder *b, const fv_level *stage);

#endif
