/* model.h: an immutable model: configuration, weights by role, and the packed copies that its plans
 * share.
 *
 * A family's reader (src/models/) turns names and shapes of a checkpoint into roles; its emitter
 * turns roles into steps. Nothing else knows an architecture.
 */
#ifndef FOVEA_SRC_MODEL_H
#define FOVEA_SRC_MODEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "backend.h"
#include "mem.h"
#include "preprocess.h"

/* ---- one tensor of a checkpoint ---- */

/* Mapped data, or none: then values come from a generator keyed by (seed, element), so that a
 * synthetic model of any size takes no memory. */
typedef struct fv_tensor {
    const char *name;
    uint8_t dtype; /* enum fv_file_type in safetensors.h */
    uint8_t rank;
    uint64_t shape[8];
    uint64_t elements;
    const void *data;
    bool mapped;        /* data are pages of a file, to be released once they are packed */
    uint64_t seed;      /* synthetic: of this tensor */
    float mean, spread; /* synthetic: values are mean + spread * (uniform in [-1, 1)) */
} fv_tensor;

/* Elements [first, first + n) as float32. The tensor's type is a floating one (checked at load). */
void fv_tensor_read(const fv_tensor *t, uint64_t first, uint64_t n, float *out);

/* A tensor of floats in memory, which stay the caller's. */
fv_tensor fv_tensor_of_floats(const float *data, uint32_t rows, uint32_t cols);

/* ---- weights by role ---- */

/* A matrix (rows, cols) put together from parts of tensors: fused QKV cut apart, K and V stacked,
 * two heads averaged side by side. Row r of the whole comes from the part that owns it; parts may
 * also sit side by side (col0 > 0). A vector is a matrix of one row. */
typedef struct fv_weight_part {
    const fv_tensor *tensor;
    uint64_t offset;     /* first element used */
    uint32_t row0, rows; /* rows of the whole that it fills */
    uint32_t col0, cols; /* columns of the whole that it fills */
    uint64_t row_stride; /* elements from row to row in the tensor */
    uint64_t col_stride; /* 1, or more for a transposed source */
    float factor;        /* multiplies */
    bool sum;            /* added to what earlier parts put there */
    uint32_t taps; /* > 1: a row of the tensor is (channel, tap), of the whole (tap, channel): the
                      weight of a convolution; cols = channels * taps, rows contiguous */
    const float *row_scale; /* a factor per row of the part, or NULL; lives as long as the model */
} fv_weight_part;

#define FV_WEIGHT_PARTS 4
typedef struct fv_weight {
    uint32_t rows, cols; /* 0 rows: absent */
    uint8_t type; /* enum fv_type of its plain packed rows, FV_NONE for F32: F16 and BF16 where the
                     step's kernel reads them */
    uint32_t parts;
    fv_weight_part part[FV_WEIGHT_PARTS];
} fv_weight;

/* The first rows * cols elements of `tensor`, row after row. */
fv_weight fv_weight_of(const fv_tensor *tensor, uint32_t rows, uint32_t cols);
/* Adds a part; strides and factor of 0 stand for rows one after the other, taken as they are. */
void fv_weight_add(fv_weight *w, fv_weight_part part);

/* Whether both are put together from the same elements in the same way. */
bool fv_weight_same(const fv_weight *a, const fv_weight *b);

/* Rows [r0, r0 + n) as n * cols floats. What no part fills is 0 (a missing bias). */
void fv_weight_read(const fv_weight *w, uint32_t r0, uint32_t n, float *out);
/* All of it, with the digits that `type` keeps; to be freed with fv_mem_free. ENOMEM. */
fovea_status fv_weight_rounded(float **out, const fv_weight *w, enum fv_type type);
static inline bool fv_weight_present(const fv_weight *w)
{
    return w->rows != 0;
}

/* ---- the ViT families: ViT, DeiT, DINOv2 (registers, SwiGLU), CLIP and SigLIP vision ---- */

typedef struct fv_vit_block {
    fv_weight ln1_w, ln1_b, q_w, q_b, kv_w, kv_b, proj_w, proj_b, ls1; /* kv: K rows, then V rows */
    fv_weight ln2_w, ln2_b, fc1_w, fc1_b, fc2_w, fc2_b,
        ls2;                /* SwiGLU: fc1 = value, then gate rows */
    fv_weight sla_q, sla_k; /* (heads, C): logits of SLA's gates; absent: all gates alike */
    fv_weight vectors;      /* (n, C): learned, of the attention's feature map; absent: zeros */
} fv_vit_block;

typedef struct fv_vit {
    uint32_t width, depth, heads, hidden; /* hidden: columns that fc2 reads */
    uint32_t patch, channels;             /* channels is 3 */
    uint32_t prefix;                      /* class, distillation, registers */
    uint32_t class_tokens;                /* leading prefix rows the heads read: 0, 1 or 2 */
    uint32_t table_width, table_height;   /* of the position table */
    enum fv_pos_rule pos_rule;
    uint32_t epi;  /* FV_EPI_* activation of the MLP, or FV_EPI_SWIGLU */
    bool sla_of_x; /* SLA's logits are made of the block's input, not of q and k */
    float eps;
    fv_weight embed_w, embed_b; /* (C, 3*P*P) */
    fv_weight prefix_rows;      /* (prefix, C): class, distillation, registers */
    fv_weight prefix_add;       /* (prefix, C): their position rows, to be added; may be absent */
    fv_weight table;            /* (table_width*table_height, C) */
    fv_weight pre_w, pre_b;     /* LayerNorm after the embedding (CLIP) */
    fv_weight post_w, post_b;   /* final LayerNorm */
    bool post_on_pooled;        /* the final LayerNorm acts on the pooled row only (CLIP): then
                                   last_hidden_state is not normalised */
    /* Pooling and heads; absent ones are not offered as outputs. */
    enum fv_vit_pool {
        FV_POOL_NONE,
        FV_POOL_CLS,      /* pooler_output: the normalised class row (DINOv2, CLIP) */
        FV_POOL_CLS_TANH, /* pooler_output: tanh(pool_w row + pool_b) (ViT, DeiT) */
        FV_POOL_MAP,      /* pooler_output: attention pooling (SigLIP) */
    } pool;
    fv_weight pool_w, pool_b;
    enum fv_vit_head {
        FV_HEAD_NONE,
        FV_HEAD_CLS,      /* head_w (classes, C) on the normalised class row */
        FV_HEAD_CLS_DIST, /* head_w (classes, 2C) on [class, distillation]: halves already halved */
        FV_HEAD_CLS_MEAN, /* head_w (classes, 2C) on [class, mean of patches] (DINOv2) */
        FV_HEAD_MEAN,     /* head_w (classes, C) on the mean of the patches of last_hidden_state
                             (CLIPForImageClassification, SiglipForImageClassification) */
        FV_HEAD_POOL,     /* head_w (classes, C) on pooler_output */
    } head;
    fv_weight head_w, head_b;
    fv_weight embeds_w; /* image_embeds = embeds_w pooler_output (CLIP), no bias */
    struct {            /* attention pooling: y = out(attn(probe, x, x)); y + mlp(LN(y)) */
        uint32_t heads, hidden, epi;
        fv_weight probe, q_w, q_b, kv_w, kv_b, out_w, out_b, ln_w, ln_b, fc1_w, fc1_b, fc2_w, fc2_b;
    } map;
    fv_vit_block *block; /* depth of them */
} fv_vit;

/* ---- the model ---- */

struct fv_source;                   /* source.h: an opened checkpoint */
struct fv_config;                   /* config.h: its config.json */
typedef struct fv_packed fv_packed; /* one packed weight, counted */
struct fv_builder;
struct fv_view;
struct fv_attention_name;

/* models/segmentation.h: a linear head on the patches of a stage. */
typedef struct fv_segmentation {
    fv_weight w, b; /* (classes, width), b may be absent; w absent: there is none */
    uint32_t stage; /* that it reads */
} fv_segmentation;

typedef struct fv_family {
    const char *name;
    const char *types;     /* the model_type that it owns, for messages: "vit, deit, ..." */
    const char *attention; /* of a model whose config.json names none */
    const void *form;      /* of a family that shares its code: what is its own */
    bool (*owns)(const char *model_type); /* NULL: `types` is its only one */
    /* Fills model->info (with the family's preprocessing), model->roles and model->outputs. */
    fovea_status (*read)(fovea_model *m, const struct fv_source *source,
                         const struct fv_config *config);
    /* Changes b->grid for a picture of b->width x b->height pixels, or refuses it; NULL: patches,
     * remainders ignored. */
    fovea_status (*grid)(const fovea_model *m, struct fv_builder *b);
    /* Writes the steps for a picture of b->grid patches. */
    fovea_status (*emit)(const fovea_model *m, struct fv_builder *b);
    /* For training, alone: what block `i`'s attention, as `attention`, sees of normalised tokens;
     * and its output projection, without layer scale. NULL: models of this family are not trained.
     */
    struct fv_view (*attend)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                             const struct fv_attention_name *attention, struct fv_view normed);
    struct fv_view (*project)(const fovea_model *m, struct fv_builder *b, uint32_t i,
                              struct fv_view seen);
    void (*release)(fovea_model *m); /* of m->roles, also after a failed read */
    /* Synthetic models: their names, NULL past the end; config.json and tensors of one of them.
     * NULL: there are none. */
    const char *(*synthetic)(size_t index);
    bool (*invents)(const char *name); /* names beside those; NULL: none */
    fovea_status (*imitate)(json_t **config, struct fv_source *source, const char *name);
} fv_family;

/* What a model is to have that its checkpoint has not, to be trained; the readers that know how put
 * it into the checkpoint. */
typedef struct fv_additions {
    const char *attention; /* whose gates and learned vectors; or NULL */
    uint32_t classes;      /* of the picture: a head for so many, unless it has one; or 0 */
    uint32_t segments;     /* of every patch */
    uint64_t seed;         /* of the heads' values */
} fv_additions;

/* A new head's values lie between this and its negative: evenly, with a deviation of 0.02. */
#define FV_NEW_HEAD 0.034641016f

struct fovea_model {
    uint32_t refs; /* the user's and one per plan; under `lock` */
    pthread_mutex_t lock;
    const fv_family *family;
    fovea_model_info info;
    struct fv_source *source;
    struct fv_source *beside;      /* segmentation.safetensors, or NULL */
    json_t *config;                /* config.json */
    const fv_additions *additions; /* while it is read; or NULL */
    bool new_head;                 /* one of them was made */
    fv_segmentation segmentation;
    void *roles;                    /* the family's: fv_vit */
    char *attention;                /* of info */
    char **outputs;                 /* NULL at the end; the main output first */
    char **labels;                  /* NULL at the end; or NULL */
    fv_packed *packed;              /* list of packed weights; under `lock` */
    struct fv_model_floats *floats; /* numbers that the reader worked out */
};

/* A (rows, cols) tensor of the model's own, zeroed, for what a reader folds at load: biases with a
 * normalisation in them, row scales, small filters. Freed with the model. */
fovea_status fv_model_floats(float **data, const fv_tensor **out, fovea_model *m, uint32_t rows,
                             uint32_t cols);
void fv_model_floats_free(fovea_model *m);

/* fovea_model_load, with what `additions` asks for; NULL: nothing. */
fovea_status fv_model_load(fovea_model **out, const char *path, const fv_additions *additions);
/* A model without a checkpoint: it only holds packed weights of a one-operation plan. */
fovea_status fv_model_blank(fovea_model **out);
void fv_model_ref(fovea_model *m);
void fv_model_unref(fovea_model *m);

/* ---- packed weights, shared by the plans of a model ---- */

/* One buffer of packed or plain weights. Key: what it is made from and its format. */
struct fv_packed {
    fv_packed *next;
    fv_weight weight;
    const char *format;
    bool pairs; /* of values and gates: SWIGLU */
    fv_knobs knobs;
    uint32_t refs;
    const fovea_device *device; /* whose memory `mem` is in; NULL: host memory, at `data` */
    bool locked;                /* host memory that is kept in main memory */
    fv_mem mem;
    uint64_t size;
    void *data;
};

/* The packed form of `w` on `device` (NULL: in host memory, `locked` or not) for `kernel` and
 * `problem` (kernel NULL: plain rows of w->type), made now unless another plan has it. ENOTSUP for
 * values that are too large for float16. Mapped source pages are released afterwards. Release with
 * fv_packed_unref.
 */
fovea_status fv_packed_get(fv_packed **out, fovea_model *m, const fovea_device *device, bool locked,
                           const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                           const fv_knobs *knobs);
void fv_packed_unref(fovea_model *m, fv_packed *p);
/* Packs it again, in host memory, as it was made, because its tensors' numbers have changed.
 * `staging`: fv_packed_staging bytes; plain rows of 16 bits allocate. ENOTSUP. */
fovea_status fv_packed_again(fv_packed *p, const fv_kernel *kernel, const fv_problem *problem,
                             float *staging);
uint64_t fv_packed_staging(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem);
/* Its size without making it. */
uint64_t fv_packed_size(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                        const fv_knobs *knobs);

#endif
