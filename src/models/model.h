/* model.h: an immutable model: its configuration, its weights by role, and the packed copies that
 * its plans share (packed.h).
 *
 * A family's reader converts the names and shapes of a checkpoint's tensors to roles. Its emitter
 * converts roles to steps. Both are in src/models; no other code depends on an architecture. */
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
struct fv_prompts;   /* prompt_tokens.h: how points and boxes are read */
struct fv_builder;
struct fv_emit_options;
struct fv_view;
struct fv_attention_name;

/* models/segmentation.h: a linear head on the patches of a stage. */
typedef struct fv_segmentation {
    fv_layer head;  /* (classes, width); absent if there is no head */
    uint32_t stage; /* the stage that the head reads */
} fv_segmentation;

/* Sets of weights that a trainer selects. */
enum fv_purpose {
    /* weights of queries, keys and values of every block, and learned parameters of the block's
     * attention */
    FV_MAKES_ATTENTION,
    /* rows that are added to tokens or that are tokens; they have no weight decay */
    FV_IS_POSITION,
    FV_IS_HEAD, /* the classification head */
};
typedef void fv_weight_visit(void *ctx, const fv_weight *w);
/* Visits the weight and the bias of a layer, present or not. */
static inline void fv_layer_visit(const fv_layer *l, fv_weight_visit *visit, void *ctx)
{
    visit(ctx, &l->w);
    visit(ctx, &l->b);
}

/* Describes the tokens that continue a sequence. */
typedef struct fv_feed {
    uint32_t rows;     /* number of tokens at a time */
    uint32_t capacity; /* number of tokens whose keys and values softmax keeps */
    uint32_t flags;    /* flags of scans: FV_FLAG_RECURRENT, FV_FLAG_CHUNKWISE or 0 */
    bool all;          /* compute the logits of every token, not only of the last one */
} fv_feed;

typedef struct fv_family {
    const char *name;
    const char *types; /* the model types of the family, for messages: "vit, deit, ..." */
    /* Returns the type with an index, for messages, or NULL after the last one. NULL if `types`
     * lists all. */
    const char *(*type)(size_t i);
    /* two tensors by which messages recognise the family, the first without "weight"; NULL if no
     * tensor is unique to the family */
    const char *sign, *second_sign;
    const char *attention; /* the attention of models whose config.json does not name one */
    const void *form;      /* data of this family, for code that families share */
    bool (*owns)(const char *model_type); /* NULL if `types` has all types */
    /* Fills model->info (with the family's preprocessing), model->roles and model->outputs. */
    fovea_status (*read)(fovea_model *m, const struct fv_source *source,
                         const struct fv_config *config);
    /* Sets o->grid for a picture of o->width x o->height pixels, or refuses the picture. NULL if
     * the grid consists of whole patches and the remaining pixels are ignored. */
    fovea_status (*grid)(const fovea_model *m, struct fv_emit_options *o);
    /* Emits the steps for a picture of b->options->grid patches. NULL if the models do not read
     * pictures. */
    fovea_status (*emit)(const fovea_model *m, struct fv_builder *b);
    /* Emits the steps that continue a sequence by some tokens. NULL if the models have no
     * sequences. */
    fovea_status (*feed)(const fovea_model *m, struct fv_builder *b, const struct fv_feed *feed);
    /* Emits the steps that make masks from the encoder's features and from the tokens of a prompt,
     * of which there are at most `tokens`. Their inputs are "features", "tokens", and "present",
     * which is 1 for the tokens that the prompt has, and else 0. Called only if m->prompts is set.
     */
    fovea_status (*prompt)(const fovea_model *m, struct fv_builder *b, uint32_t tokens);
    /* For training: emits only the steps of block `i`'s attention, of the kind `attention`, on
     * normalised tokens. `project` emits only the steps of its output projection, without layer
     * scale. NULL if only a head can be trained in models of this family. */
    struct fv_view (*attend)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                             const struct fv_attention_name *attention, struct fv_view normed);
    struct fv_view (*project)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                              struct fv_view seen);
    /* For training: calls `visit` with every weight that has the purpose. NULL if models of this
     * family cannot be trained. */
    void (*weights)(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                    void *ctx);
    void (*release)(fovea_model *m); /* frees m->roles, also after `read` has failed */
    /* the synthetic models of the family; NULL if there are none */
    const struct fv_synthetic_list *synthetic;
    bool shapes; /* its linear attentions have parameters (linear_form.h) */
    /* a neck and head can follow the model, also in names of synthetic models (decoder.h) */
    bool decodes;
} fv_family;
/* Defines a family. The arguments after `id` initialise its members. */
#define FV_DEFINE_FAMILY(id, ...) const fv_family fv_family_##id = {__VA_ARGS__};

/* Tensors to add to a checkpoint before training: gates, learned vectors, heads. The readers that
 * know their shapes add them. */
typedef struct fv_additions {
    const char *attention; /* the attention whose gates and learned vectors are added, or NULL */
    bool full_module;      /* also add the modules that the attention's authors put around it */
    /* number of classes of a classification head to add unless there is one; 0 for no head */
    uint32_t classes;
    uint32_t segments; /* number of classes of a segmentation head to add; 0 for no head */
    float max_depth;   /* maximum depth of a depth head to add; 0 for no head */
    uint8_t head;      /* kind of the head: a fovea_head of adapt.h */
    uint64_t seed;     /* seed of the heads' random values */
} fv_additions;

/* Values of a new head are uniform in [-FV_NEW_HEAD, FV_NEW_HEAD]: their standard deviation is
 * 0.02. */
#define FV_NEW_HEAD 0.034641016f

struct fovea_model {
    _Atomic uint32_t refs; /* number of references: the user's, and one per plan */
    const fv_family *family;
    fovea_model_info info;
    fovea_preprocess preprocess;
    bool timm_transform;     /* config.json contains the preprocessing in timm's format */
    char *preprocess_source; /* memory of info.preprocess_source */
    struct fv_store *store;  /* the model's files; NULL if the model is synthetic */
    struct fv_source *source;
    struct fv_source *segmentation_source; /* segmentation.safetensors, or NULL */
    struct json_t *config;                 /* config.json */
    const fv_additions *additions;         /* set only while the model is read; or NULL */
    const fovea_linear_attention_params
        /* set only while the model is read: parameters that replace those of config.json; or
         * NULL */
        *given;
    bool new_head; /* a head was added */
    /* side of the square, in pixels, to which masks are enlarged first, by the rules of
     * Mask2Former; 0: masks are enlarged to the picture that was run, by the rules of EoMT */
    uint32_t mask_square;
    fv_segmentation segmentation;
    struct fv_decoder *decoder;           /* decoder of a pyramid, or NULL */
    struct fv_dpt_head *dpt_head;         /* head of a ViT, or NULL */
    const struct fv_detection *detection; /* points into the decoder or the roles; or NULL */
    const struct fv_prompts *prompts;     /* points into the roles; or NULL */
    void *roles;                          /* the weights by role, in the family's own struct */
    char *attention;                      /* memory of info.attention */
    char **outputs;                       /* names, ended by NULL; the main output first */
    char **labels;                        /* names, ended by NULL; or NULL */
    fv_shared_weights shared;             /* packed weights that plans share */
    struct fv_model_floats *floats;       /* tensors that the reader computed */
};

/* Makes a (rows, cols) tensor of zeros that the model owns and frees. Readers use it for data
 * computed at load: biases with a folded normalisation, row scales, small filters. */
fovea_status fv_model_floats(float **data, const fv_tensor **out, fovea_model *m, uint32_t rows,
                             uint32_t cols);
void fv_model_floats_free(fovea_model *m);

/* Adds a name to m->outputs unless m->outputs contains it. The caller has allocated enough
 * entries. */
fovea_status fv_model_add_output(fovea_model *m, const char *format, ...) FV_PRINTF(2, 3);

/* Returns how many labels the model can have: its number of classes of pictures, of pixels or of
 * boxes. */
uint32_t fv_model_labels(const fovea_model *m);

/* Name of the output with the queries ('q') or keys ('k') of a block, such as "stage1.block0.q";
 * stages and blocks are counted from 0. */
typedef struct fv_block_output {
    char text[32];
} fv_block_output;
fv_block_output fv_block_output_name(uint32_t stage, uint32_t block, char what);
/* Adds the names of these outputs for all blocks of a stage. */
fovea_status fv_model_add_blocks(fovea_model *m, uint32_t stage, uint32_t blocks);

/* Does what fovea_model_load_with does, with all fields of `o` set, and adds the tensors that
 * `additions` specifies. `additions` may be NULL. */
fovea_status fv_model_load(fovea_model **out, const char *path, const fovea_model_options *o,
                           const fv_additions *additions);
/* Makes a model without a checkpoint, which only owns the packed weights of a one-operation
 * plan. */
fovea_status fv_model_blank(fovea_model **out);
void fv_model_ref(fovea_model *m);

#endif
