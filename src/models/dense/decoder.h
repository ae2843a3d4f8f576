/* decoder.h: a neck and a head on the stages of a pyramid: Semantic FPN, UperNet and RetinaNet,
 * with the configuration and the tensors of mmsegmentation and mmdetection.
 *
 *     stages, normalised by extra_norms -> neck (FPN, or none) -> decode_head or bbox_head
 *
 * A family reads its backbone, calls fv_decoder_read, and gives the emitter its stages.
 */
#ifndef FOVEA_SRC_MODELS_DECODER_H
#define FOVEA_SRC_MODELS_DECODER_H

#include "checkpoint/config.h"
#include "graph/emit.h"
#include "models/detection.h"
#include "models/fields.h"
#include "models/tensor_reader.h"

#define FV_DECODER_WIDTH 65536u /* channels at most */

typedef struct fv_conv_module fv_conv_module;

/* What one head or neck reads of another: a row of `channels` for each place of the grid. */
typedef struct fv_level {
    fv_view rows;
    fv_grid grid;
    uint32_t channels;
    const fv_conv_module *pending; /* a neck's output: its last convolution; NULL: written */
    uint32_t index;                /* of that output */
} fv_level;

/* ---- convolution, normalisation, activation (conv_module.c) ---- */

struct fv_conv_module {
    fv_layer l;      /* with its batch normalisation folded in */
    uint32_t size;   /* 1 or 3 */
    fv_layer norm;   /* of groups of channels of what that gives */
    uint32_t groups; /* 0: there is none */
    uint32_t act;    /* FV_EPI_RELU or 0 */
};

typedef struct fv_decoder_reader fv_decoder_reader;

/* Tensors name + "conv.", with name + "bn." or name + "gn." where one of these is there; `channels`
 * to `rows`. */
fovea_status fv_conv_module_read(fv_conv_module *c, fv_decoder_reader *r, const char *name,
                                 uint32_t rows, uint32_t channels, uint32_t size, uint32_t act);
/* Tensors name + "weight" and name + "bias" alone. */
fovea_status fv_conv_plain_read(fv_conv_module *c, fv_tensor_reader *t, const char *name,
                                uint32_t rows, uint32_t channels, uint32_t size);
/* The grid after a convolution of 3 x 3 with that stride. */
fv_grid fv_conv_module_grid(const fv_grid *from, uint32_t stride);
/* Into rows of `out`; stride 1 or 2, of 1 x 1 only 1. */
void fv_conv_module_write(fv_builder *b, const char *label, const fv_conv_module *c,
                          const fv_level *in, uint32_t stride, fv_view out);
fv_level fv_conv_module_emit(fv_builder *b, const char *label, const fv_conv_module *c,
                             const fv_level *in, uint32_t stride);

/* What follows its convolution, whose sums were computed otherwise. */
fv_level fv_conv_module_finish(fv_builder *b, const char *label, const fv_conv_module *c,
                               const fv_level *sums);

/* Weight and bias; of a module without group normalisation, which has no gradient. */
void fv_conv_module_weights(const fv_conv_module *c, fv_weight_visit *visit, void *ctx);

/* A level in another grid, added to res (id FV_NO_VALUE: none). rule: FV_FLAG_NEAREST, or bilinear:
 * FV_FLAG_ALIGN_CORNERS, or 0. */
void fv_level_resize(fv_builder *b, const char *label, const fv_level *in, const fv_grid *to,
                     uint32_t rule, fv_view res, fv_view out);
/* to = to + in, resized to its grid. */
void fv_level_add(fv_builder *b, const char *label, const fv_level *in, const fv_level *to,
                  uint32_t rule);

/* ---- reading ---- */

/* Fields of every decode_head of mmsegmentation: of its BaseDecodeHead. */
#define FV_DECODE_HEAD_FIELDS                                                                      \
    "act_cfg align_corners channels dropout_ratio ignore_index in_channels in_index init_cfg "     \
    "loss_decode norm_cfg num_classes sampler conv_cfg={} input_transform=multiple_select"

typedef struct fv_decoder fv_decoder;

/* What a neck or head reads while it is read. */
struct fv_decoder_reader {
    fv_tensor_reader t;
    const fv_config *config; /* the whole */
    fv_decoder *d;
    uint32_t levels, channels[FV_LEVELS]; /* of the levels that it may read */
    uint32_t norm_groups;                 /* of group normalisation in the section that is read */
};

/* decoder_config.c. Section `key` of `from`, called `name` in messages, with fields of `list`
 * alone. */
fovea_status fv_decoder_section(fv_config *out, const fv_decoder_reader *r, const fv_config *from,
                                const char *key, const char *name, const char *list);
/* ENOTSUP for a "norm_cfg" that is not batch or group normalisation with an epsilon of 1e-5, and
 * for an "act_cfg" other than ReLU; `plain`: other than none. `names` are those in messages. Which
 * normalisation there is, the tensors show; settles r->norm_groups. */
fovea_status fv_decoder_check_convs(fv_decoder_reader *r, const fv_config *c,
                                    const char *const names[2], bool plain);
/* "in_channels" and "in_index" of a decode_head, into `index`: levels that it reads. */
fovea_status fv_decoder_inputs(uint32_t *index, uint32_t *n, const fv_decoder_reader *r,
                               const fv_config *c);
/* "num_classes" and "channels" of a head, which must be there. */
fovea_status fv_decoder_classes(uint32_t *classes, const fv_config *c);
fovea_status fv_decoder_channels(uint32_t *channels, const fv_config *c);

/* ---- a neck: FPN (feature_pyramid.c) ---- */

typedef struct fv_feature_pyramid {
    uint32_t first, laterals, outs,
        channels; /* of the levels it reads it takes [first, first + n) */
    enum fv_extra_levels {
        FV_EXTRA_POOLED,     /* every second pixel */
        FV_EXTRA_OF_INPUT,   /* convolutions of stride 2, the first one of the last input */
        FV_EXTRA_OF_LATERAL, /* .. of the last lateral */
        FV_EXTRA_OF_OUTPUT,  /* .. of the last output */
    } extra;
    uint32_t rule; /* of what is added from the level above: fv_level_resize */
    fv_conv_module lateral[FV_LEVELS], conv[FV_LEVELS];
} fv_feature_pyramid;

/* Replaces the reader's levels by the neck's. */
fovea_status fv_feature_pyramid_read(fv_feature_pyramid *f, fv_decoder_reader *r,
                                     const fv_config *neck);
/* The same for the levels themselves, except the last convolution of each, which stays pending. */
void fv_feature_pyramid_emit(const fv_feature_pyramid *f, fv_builder *b, fv_level level[FV_LEVELS]);
void fv_feature_pyramid_weights(const fv_feature_pyramid *f, fv_weight_visit *visit, void *ctx);
/* The level with all its steps written: of a stage, itself. A head writes each right before it
 * reads it: then what the last convolution writes need not be kept whole (plan/band.h). */
fv_level fv_feature_pyramid_level(fv_builder *b, const fv_level *level);

/* ---- heads ---- */

typedef struct fv_decoder_head {
    const char *type;    /* as config.json has it */
    const char *section; /* "decode_head" or "bbox_head" */
    const char *last;    /* stem of its last layer */
    fovea_status (*read)(fv_decoder_reader *r, const fv_config *head);
    /* Takes each of the levels that it reads by fv_feature_pyramid_level. */
    void (*emit)(const fv_decoder *d, fv_builder *b, const fv_level *level);
    /* Every weight of the head; NULL: it cannot be trained. */
    void (*weights)(const fv_decoder *d, fv_weight_visit *visit, void *ctx);
} fv_decoder_head;

extern const fv_decoder_head fv_head_semantic_fpn, fv_head_uper_net, fv_head_retina_net;

#define FV_DOUBLINGS 8 /* of a level until it has the first one's size, at most */
typedef struct fv_semantic_fpn {
    uint32_t levels, index[FV_LEVELS], channels;
    uint32_t convs[FV_LEVELS]; /* of a level */
    bool doubled[FV_LEVELS];   /* after each of them */
    uint32_t rule;             /* fv_level_resize */
    fv_conv_module conv[FV_LEVELS][FV_DOUBLINGS], classify;
} fv_semantic_fpn;

#define FV_POOLS 8
typedef struct fv_uper_net {
    uint32_t levels, index[FV_LEVELS], channels;
    uint32_t pools, pool[FV_POOLS]; /* areas along each side */
    uint32_t rule;                  /* fv_level_resize */
    fv_conv_module pooled[FV_POOLS], bottleneck, lateral[FV_LEVELS], conv[FV_LEVELS], fuse,
        classify;
} fv_uper_net;

#define FV_STACKED 16
typedef struct fv_retina_net {
    uint32_t stacked;
    fv_conv_module cls[FV_STACKED], box[FV_STACKED], to_cls, to_box;
} fv_retina_net;

/* ---- all of it (decoder.c) ---- */

struct fv_decoder {
    uint32_t stages, stage[FV_LEVELS]; /* of the backbone that are read: "out_indices" */
    const fv_decoder_head *head;
    bool has_neck, group_norms; /* in neck or head */
    fv_feature_pyramid neck;
    union {
        fv_semantic_fpn semantic;
        fv_uper_net uper;
        fv_retina_net retina;
    };
    fv_detection detection; /* levels 0: it finds no boxes */
};

/* Reads m->decoder, if config.json describes one; `widths`: of the backbone's n stages. */
fovea_status fv_decoder_read(fovea_model *m, const fv_source *source, const fv_config *config,
                             const uint32_t *widths, uint32_t n);
void fv_decoder_release(fovea_model *m);
/* For training: every weight of neck and head; false, and nothing is visited, for a head that
 * cannot be trained, or with group normalisation. */
bool fv_decoder_weights(const fv_decoder *d, fv_weight_visit *visit, void *ctx);
/* Puts Semantic FPN on a backbone without a head, as the model's additions ask; an existing head
 * gets their number of classes (decoder_new.c). */
fovea_status fv_decoder_new(fovea_model *m, const fv_source *source, const fv_config *config,
                            const uint32_t *widths, uint32_t n);

#define FV_DECODER_OUTPUTS (2 * FV_LEVELS) /* at most */
/* Adds the names of its outputs; they are the model's main ones. */
fovea_status fv_decoder_list(fovea_model *m);

/* Whether an output of it is wanted. */
bool fv_decoder_wants(const fovea_model *m, const fv_builder *b);
/* Writes its steps; `stage`: all of the backbone's. */
void fv_decoder_emit(const fovea_model *m, fv_builder *b, const fv_level *stage);

#endif
