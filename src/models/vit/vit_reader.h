/* vit_reader.h: what the files that read a ViT's checkpoint share: vit_read.c, and one for each
 * part of such a model.
 */
#ifndef FOVEA_SRC_MODELS_VIT_READER_H
#define FOVEA_SRC_MODELS_VIT_READER_H

#include "checkpoint/config.h"
#include "checkpoint/processor.h"
#include "models/fields.h"
#include "models/tensor_reader.h"
#include "models/vit/vit.h"

#define FV_VIT_WIDTH_MOST 65536
#define FV_VIT_HIDDEN_MOST (1u << 20)
#define FV_VIT_SLA_Q "attn.sla_q."
#define FV_VIT_SLA_K "attn.sla_k."

/* Defaults of a kind, where neither config.json nor the checkpoint says. */
typedef struct fv_vit_kind_info {
    const char *name;
    float eps; /* of transformers' configuration class */
    uint32_t act;
    enum fv_processor processor;
    /* In transformers' files: */
    uint8_t parts;             /* FV_VIT_HAS_* */
    enum fv_pos_rule pos_rule; /* of the position table */
    enum fv_vit_head head;
} fv_vit_kind_info;
enum {
    FV_VIT_HAS_CLASS = 1,      /* a class token before the patches */
    FV_VIT_HAS_PATCH_BIAS = 2, /* of the product with the patches */
    FV_VIT_HAS_SCALES = 4,     /* layer scales */
    FV_VIT_HAS_CLIP_NORMS = 8, /* one after the embedding, the last on the pooled row alone */
};
extern const fv_vit_kind_info fv_vit_kinds[]; /* by enum fv_vit_kind */

typedef struct fv_vit_reader {
    fv_tensor_reader t;
    const fv_config *config; /* the whole of config.json */
    fv_config vision;        /* the section that describes this tower */
    fv_config own;           /* the section "fovea" */
    const char *type;
    enum fv_vit_kind kind;
    const fv_vit_names *n;
    const char *prefix; /* where it is known before; else one of fv_vit_prefixes is found */
    fv_vit *v;
    char block[96]; /* prefix of the block being read */
    uint32_t chunk; /* DINOv2's files keep blocks in chunks: that of the block before */
    bool scaled, gated;
    bool split; /* the gated MLP's first product is two tensors */
    bool q_bias, k_bias, v_bias;
    bool rel_bias;   /* each block has its own biases of scores */
    uint32_t paired; /* d where channels that turn together are d/2 apart, else 0 */
    enum {
        FV_VIT_SLA_TOLD_BY_SHAPE,
        FV_VIT_SLA_Q_BLOCKDIAG,
        FV_VIT_SLA_Q_DENSE,
        FV_VIT_SLA_X_DENSE
    } sla; /* how the logits of SLA's gates are made */
} fv_vit_reader;

/* vit_kinds.c */
bool fv_vit_find_kind(enum fv_vit_kind *out, const char *type);

/* vit_read.c */
/* Fills r->v and the model's info; known are all of r up to `kind`, and where the roles are. */
fovea_status fv_vit_read_encoder(fv_vit_reader *r);
/* What a model says of its sizes. */
void fv_vit_describe(fovea_model_info *info, const fv_vit *v);

/* vit_sizes.c */
/* EFORMAT names `what` where `value` is 0 or more than `limit`. */
fovea_status fv_vit_check_size(const fv_vit_reader *r, const char *what, uint32_t value,
                               uint32_t limit);
/* Prefix of block i in r->block; false when the checkpoint has no such block. */
bool fv_vit_find_block(fv_vit_reader *r, uint32_t i);
/* Width, patch and depth; heads and the numbers of the arithmetic. */
fovea_status fv_vit_read_sizes(fv_vit_reader *r);
/* Biases of q, k and v, layer scale, gated MLP and hidden width, as the first block has them, or
 * config.json. */
fovea_status fv_vit_read_block_form(fv_vit_reader *r);

/* vit_tokens.c */
/* Patches, the rows before them, positions, the norm after them. */
fovea_status fv_vit_read_embedding(fv_vit_reader *r);

/* The size in pixels of the pictures that the model was made for, by config.json; 0 and 0 if it
 * does not say. */
fovea_status fv_vit_read_picture(const fv_vit_reader *r, uint32_t *width, uint32_t *height);

/* vit_bias.c: biases of softmax's scores by relative position, those of all blocks and those of the
 * block that is being read. */
fovea_status fv_vit_read_bias(fv_vit_reader *r);
extern const char fv_vit_bias_fields[]; /* further fields of their configurations */
fovea_status fv_vit_read_block_bias(fv_vit_reader *r, fv_weight *bias);

/* vit_rotations.c: whether and how queries and keys are turned. */
fovea_status fv_vit_read_rotation(fv_vit_reader *r);

/* vit_whole.c */
/* Adds the parts of the authors' attention module around the mechanism, initialised so that they
 * change nothing. */
fovea_status fv_vit_put_module(fv_vit_reader *r, uint32_t mech);
/* Reads what the checkpoint has of it; b->kv is read. */
fovea_status fv_vit_read_module(fv_vit_reader *r, fv_vit_block *b);

/* vit_blocks.c */
/* Rows q, k, v of one tensor, cut into q and the k and v that follow each other anyway; channels of
 * q and k made neighbours as `paired` says. */
fovea_status fv_vit_cut_qkv(fv_vit_reader *r, fv_layer *q, fv_layer *kv, const char *prefix,
                            const char *stem, bool bias, uint32_t paired);
fovea_status fv_vit_read_blocks(fv_vit_reader *r);

/* vit_heads.c */
/* The last norm, and the pooling: how all tokens become one row. */
fovea_status fv_vit_read_pool(fv_vit_reader *r);
/* The classification head, if there is one or one is to be added. */
fovea_status fv_vit_read_head(fv_vit_reader *r);
/* image_embeds: a projection without bias, (out, C), or (C, out) in OpenAI's files. */
fovea_status fv_vit_read_embeds(fv_vit_reader *r);

#endif
