/* model.h: an immutable model: configuration, weights by role, and the packed copies that its plans
 * share (packed.h).
 *
 * A family's reader turns names and shapes of a checkpoint into roles, its emitter turns roles into
 * steps; both are files of src/models, and nothing else knows an architecture.
 */
#ifndef FOVEA_SRC_MODEL_H
#define FOVEA_SRC_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <fovea/models.h>

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "ops/preprocess.h"
#include "weights/shared_weights.h"

/* ---- the model ---- */

struct json_t;       /* jansson.h */
struct fv_store;     /* store.h: its files */
struct fv_source;    /* source.h: an opened checkpoint */
struct fv_config;    /* config.h: its config.json */
struct fv_decoder;   /* decoder.h: a neck and a head */
struct fv_detection; /* detection.h: how boxes are decoded */
struct fv_builder;
struct fv_emit_options;
struct fv_view;
struct fv_attention_name;

/* models/segmentation.h: a linear head on the patches of a stage. */
typedef struct fv_segmentation {
    fv_layer head;  /* (classes, width); absent: there is none */
    uint32_t stage; /* that it reads */
} fv_segmentation;

/* Sets of weights that a trainer asks for. */
enum fv_purpose {
    FV_MAKES_ATTENTION, /* queries, keys, values of every block, and what its attention learns */
    FV_IS_POSITION,     /* rows that are added to tokens or are tokens: without weight decay */
    FV_IS_HEAD,         /* the classification head */
};
typedef void fv_weight_visit(void *ctx, const fv_weight *w);
/* Weight and bias, present or not. */
static inline void fv_layer_visit(const fv_layer *l, fv_weight_visit *visit, void *ctx)
{
    visit(ctx, &l->w);
    visit(ctx, &l->b);
}

/* Tokens that continue a sequence. */
typedef struct fv_feed {
    uint32_t rows;     /* at a time */
    uint32_t capacity; /* tokens that softmax remembers */
    uint32_t flags;    /* of scans: FV_FLAG_RECURRENT, FV_FLAG_CHUNKWISE or 0 */
    bool all;          /* logits of every token, not of the last alone */
} fv_feed;

typedef struct fv_family {
    const char *name;
    const char *types; /* the model_type that it owns, for messages: "vit, deit, ..." */
    const char *sign, *second_sign; /* two tensors that only it has, the first without "weight", for
                                       messages; NULL: no tensor identifies it */
    const char *attention;          /* of a model whose config.json names none */
    const void *form;               /* what is the family's own, where families share code */
    bool (*owns)(const char *model_type); /* NULL: `types` is its only one */
    /* Fills model->info (with the family's preprocessing), model->roles and model->outputs. */
    fovea_status (*read)(fovea_model *m, const struct fv_source *source,
                         const struct fv_config *config);
    /* Changes o->grid for a picture of o->width x o->height pixels, or refuses it; NULL: patches,
     * remainders ignored. */
    fovea_status (*grid)(const fovea_model *m, struct fv_emit_options *o);
    /* Writes the steps for a picture of b->options->grid patches. NULL: it sees no pictures. */
    fovea_status (*emit)(const fovea_model *m, struct fv_builder *b);
    /* Writes the steps that continue a sequence by some tokens. NULL: it has none. */
    fovea_status (*feed)(const fovea_model *m, struct fv_builder *b, const struct fv_feed *feed);
    /* For training, as steps by themselves: the result of block `i`'s attention, of the kind
     * `attention`, for normalised tokens; and its output projection, without layer scale. NULL:
     * of models of this family a head is trained at most. */
    struct fv_view (*attend)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                             const struct fv_attention_name *attention, struct fv_view normed);
    struct fv_view (*project)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                              struct fv_view seen);
    /* For training: calls `visit` with every weight that has the purpose. NULL: models of this
     * family cannot be trained. */
    void (*weights)(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                    void *ctx);
    void (*release)(fovea_model *m); /* of m->roles, also after a failed read */
    /* Synthetic models: their names, NULL past the end; config.json and tensors of one of them.
     * NULL: there are none. */
    const char *(*synthetic)(size_t index);
    bool (*has_synthetic)(const char *name); /* further names; NULL: none */
    bool shapes;  /* its linear attentions have a fovea_linear_attention_params */
    bool decodes; /* it takes necks and heads, and their names after those (decoder.h) */
    fovea_status (*make_synthetic)(struct json_t **config, struct fv_source *source,
                                   const char *name);
} fv_family;
/* Defines a family by its members. */
#define FV_DEFINE_FAMILY(id, ...) const fv_family fv_family_##id = {__VA_ARGS__};

/* Tensors to add to a checkpoint before training (gates, learned vectors, heads); the readers that
 * know their shapes add them. */
typedef struct fv_additions {
    const char *attention; /* its gates and learned vectors are added; or NULL */
    bool full_module;      /* and what its authors put around it */
    uint32_t classes;      /* of a classification head, unless there is one; 0: none */
    uint32_t segments;     /* classes of a segmentation head; 0: none */
    float max_depth;       /* of a head that gives depth up to it; 0: none */
    uint8_t head;          /* which head it is: fovea_head of adapt.h */
    uint64_t seed;         /* of the heads' random values */
} fv_additions;

/* A new head's values are uniform in [-this, this]: a standard deviation of 0.02. */
#define FV_NEW_HEAD 0.034641016f

struct fovea_model {
    _Atomic uint32_t refs; /* the user's and one per plan */
    const fv_family *family;
    fovea_model_info info;
    fovea_preprocess preprocess;
    bool timm_transform;     /* its config.json says how, as timm writes it */
    char *preprocess_source; /* of info */
    struct fv_store *store;  /* where its files are; NULL: it is synthetic */
    struct fv_source *source;
    struct fv_source *segmentation_source; /* segmentation.safetensors, or NULL */
    struct json_t *config;                 /* config.json */
    const fv_additions *additions;         /* while it is read; or NULL */
    const fovea_linear_attention_params
        *given;    /* while it is read: in place of what config.json says; or NULL */
    bool new_head; /* a head was added */
    fv_segmentation segmentation;
    struct fv_decoder *decoder;           /* of a pyramid, or NULL */
    struct fv_dpt_head *dpt_head;         /* of a ViT, or NULL */
    const struct fv_detection *detection; /* the decoder's or that of roles; or NULL */
    void *roles;                          /* the family's */
    char *attention;                      /* of info */
    char **outputs;                       /* NULL at the end; the main output first */
    char **labels;                        /* NULL at the end; or NULL */
    fv_shared_weights shared;             /* by its plans */
    struct fv_model_floats *floats;       /* tensors that the reader computed */
};

/* A (rows, cols) tensor of the model's own, zeroed, for what a reader folds at load: biases with a
 * normalisation in them, row scales, small filters. Freed with the model. */
fovea_status fv_model_floats(float **data, const fv_tensor **out, fovea_model *m, uint32_t rows,
                             uint32_t cols);
void fv_model_floats_free(fovea_model *m);

/* Adds a name to m->outputs unless it has it; the caller has allocated enough entries. */
fovea_status fv_model_add_output(fovea_model *m, const char *format, ...) FV_PRINTF(2, 3);

/* How many labels it can have: classes of pictures, of pixels or of boxes. */
uint32_t fv_model_labels(const fovea_model *m);

/* The output with what a block's attention gets: 'q', 'k'; numbers from 0. "stage1.block0.q" */
typedef struct fv_block_output {
    char text[32];
} fv_block_output;
fv_block_output fv_block_output_name(uint32_t stage, uint32_t block, char what);
/* Adds those of all blocks of a stage. */
fovea_status fv_model_add_blocks(fovea_model *m, uint32_t stage, uint32_t blocks);

/* fovea_model_load_with, of which `o` has all fields, with what `additions` asks for; NULL:
 * nothing.
 */
fovea_status fv_model_load(fovea_model **out, const char *path, const fovea_model_options *o,
                           const fv_additions *additions);
/* A model without a checkpoint: it only holds packed weights of a one-operation plan. */
fovea_status fv_model_blank(fovea_model **out);
void fv_model_ref(fovea_model *m);

#endif
