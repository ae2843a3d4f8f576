/* vit_reader.h: the functions that the readers of a ViT's checkpoint share: vit_read.c, and one
 * file for each part of such a model. */
#ifndef FOVEA_SRC_MODELS_VIT_READER_H
#define FOVEA_SRC_MODELS_VIT_READER_H

#include "checkpoint/config.h"
#include "checkpoint/processor.h"
#include "models/fields.h"
#include "models/tensor_reader.h"
#include "models/vit/vit.h"

#define FV_VIT_WIDTH_MOST 65536
#define FV_VIT_HIDDEN_MOST (1u << 20)
#define FV_VIT_MERGED_MOST 16 /* largest side of the patches that a merger joins */
#define FV_VIT_SLA_Q "attn.sla_q."
#define FV_VIT_SLA_K "attn.sla_k."

/* Defaults of a kind, for values that are neither in config.json nor in the checkpoint. */
typedef struct fv_vit_kind_info {
    const char *name;
    float eps; /* default of transformers' configuration class */
    uint32_t act;
    enum fv_processor processor;
    /* In transformers' files: FV_VIT_HAS_*. */
    uint16_t parts;            /* FV_VIT_HAS_* */
    enum fv_pos_rule pos_rule; /* rule for resizing the position table */
    enum fv_vit_head head;
} fv_vit_kind_info;
enum {
    FV_VIT_HAS_CLASS = 1,        /* a class token before the patches */
    FV_VIT_HAS_PATCH_BIAS = 2,   /* a bias of the patch embedding */
    FV_VIT_HAS_SCALES = 4,       /* layer scales */
    FV_VIT_HAS_PRE_NORM = 8,     /* a norm after the embedding */
    FV_VIT_HAS_POOLED_NORM = 16, /* the last norm is applied only to the pooled row */
    /* norms divide by the root mean square and have no biases; products may lack them too */
    FV_VIT_HAS_RMS_NORMS = 32,
    FV_VIT_HAS_AXIAL = 64,       /* rotary positions by the row and the column of a patch */
    FV_VIT_HAS_HEAD_NORMS = 128, /* norms of each head's part of q and k */
};
extern const fv_vit_kind_info fv_vit_kinds[]; /* indexed by enum fv_vit_kind */

/* A model_type of transformers, or the names of timm or torch.hub with a beginning and a part. The
 * other members are what differs from the kind; 0 and NULL mean that nothing does. */
typedef struct fv_vit_type {
    const char *begin, *part; /* if part is NULL, the name is exactly `begin` */
    enum fv_vit_kind kind;
    float eps;
    uint32_t heads; /* default number of heads; 0 if config.json must specify it */
    enum fv_processor processor;
    const char *fields; /* fields of its configuration in addition to those of all ViTs */
} fv_vit_type;
/* vit_kinds.c: returns NULL if no ViT has the name. */
const fv_vit_type *fv_vit_find_type(const char *name);

typedef struct fv_vit_reader {
    fv_tensor_reader t;
    const fv_config *config; /* the whole config.json */
    fv_config vision;        /* the section that describes this tower */
    fv_config own;           /* the section "fovea" */
    const char *type;
    const fv_vit_type *known; /* the line of `type`; NULL if another family reads its encoder */
    enum fv_vit_kind kind;
    const fv_vit_names *n;
    /* set if it is known beforehand; otherwise one of fv_vit_prefixes is found */
    const char *prefix;
    fv_vit *v;
    char block[96]; /* prefix of the block being read */
    uint32_t chunk; /* DINOv2's files group blocks in chunks: chunk of the previous block */
    bool scaled, gated;
    bool split; /* the weights of a gated MLP's first product are in two tensors */
    bool q_bias, k_bias, v_bias;
    bool rel_bias;   /* each block has its own biases of scores */
    uint32_t paired; /* d if channels i and i + d/2 of a head are rotated together, else 0 */
    enum {
        FV_VIT_SLA_TOLD_BY_SHAPE,
        FV_VIT_SLA_Q_BLOCKDIAG,
        FV_VIT_SLA_Q_DENSE,
        FV_VIT_SLA_X_DENSE
    } sla; /* how the logits of SLA's gates are computed */
} fv_vit_reader;

/* vit_read.c */
/* Sets r->v and the model's info. The fields of r up to `kind`, and r->v, must be set. */
fovea_status fv_vit_read_encoder(fv_vit_reader *r);
/* Sets the sizes in a model's info. */
void fv_vit_describe(fovea_model_info *info, const fv_vit *v);

/* vit_sizes.c */
/* Returns FOVEA_EFORMAT, with `what` in the message, if `value` is 0 or more than `limit`. */
fovea_status fv_vit_check_size(const fv_vit_reader *r, const char *what, uint32_t value,
                               uint32_t limit);
/* Sets r->block to the prefix of block i. Returns false if the checkpoint has no such block. */
bool fv_vit_find_block(fv_vit_reader *r, uint32_t i);
/* Reads a norm, which has a bias unless it divides by the root mean square. */
fovea_status fv_vit_read_norm(fv_vit_reader *r, fv_layer *l, const char *prefix, const char *stem);
/* Reads width, patch size, depth and heads, and numbers such as eps. */
fovea_status fv_vit_read_sizes(fv_vit_reader *r);
/* Reads from the first block or config.json which of q, k and v have biases, whether there are
 * layer scales and a gated MLP, and the hidden width. */
fovea_status fv_vit_read_block_form(fv_vit_reader *r);

/* vit_tokens.c */
/* Reads the patch embedding, the prefix rows, the positions, and the norm after them. */
fovea_status fv_vit_read_embedding(fv_vit_reader *r);

/* Reads from config.json the picture size, in pixels, for which the model was made. Sets 0 and 0 if
 * config.json does not have it. */
fovea_status fv_vit_read_picture(const fv_vit_reader *r, uint32_t *width, uint32_t *height);

/* vit_bias.c: reads biases of softmax's scores by relative position. fv_vit_read_bias reads the
 * biases of all blocks, fv_vit_read_block_bias those of the block being read. */
fovea_status fv_vit_read_bias(fv_vit_reader *r);
extern const char fv_vit_bias_fields[]; /* additional fields of configurations with such biases */
fovea_status fv_vit_read_block_bias(fv_vit_reader *r, fv_weight *bias);

/* vit_windows.c: reads which blocks attend inside windows. The blocks must have been read. */
fovea_status fv_vit_read_windows(fv_vit_reader *r);

/* vit_rotations.c: reads whether and how queries and keys are rotated (RoPE). */
fovea_status fv_vit_read_rotation(fv_vit_reader *r);

/* vit_whole.c */
/* Adds the parts of the authors' attention module around the mechanism, initialised so that they do
 * not change the result. */
fovea_status fv_vit_put_module(fv_vit_reader *r, uint32_t mech);
/* Reads the parts that the checkpoint has. b->kv must have been read. */
fovea_status fv_vit_read_module(fv_vit_reader *r, fv_vit_block *b);

/* vit_blocks.c */
/* Splits a tensor with rows q, k, v into q, and k and v, which are contiguous. Channels of q and k
 * that are rotated together become neighbours as `paired` specifies. */
fovea_status fv_vit_cut_qkv(fv_vit_reader *r, fv_layer *q, fv_layer *kv, const char *prefix,
                            const char *stem, bool bias, uint32_t paired);
fovea_status fv_vit_read_blocks(fv_vit_reader *r);

/* vit_heads.c */
/* Reads the last norm and the pooling, which reduces all tokens to one row. */
fovea_status fv_vit_read_pool(fv_vit_reader *r);
/* Reads the classification head, if there is one or one must be added. */
fovea_status fv_vit_read_head(fv_vit_reader *r);
/* Reads the projection of image_embeds, which has no bias: (out, C), or (C, out) in OpenAI's
 * files. */
fovea_status fv_vit_read_embeds(fv_vit_reader *r);
/* Reads the layers that join neighbouring patches, if the checkpoint has them. */
fovea_status fv_vit_read_merger(fv_vit_reader *r);

#endif
