/* polaformer.h: Pola-PVT and Pola-Swin: stages of blocks on ever coarser grids, and what the two
 * families share of reading and computing them.
 */
#ifndef FOVEA_SRC_MODELS_POLAFORMER_H
#define FOVEA_SRC_MODELS_POLAFORMER_H

#include "checkpoint/config.h"
#include "graph/attended.h"
#include "graph/emit.h"
#include "models/dense/decoder.h"
#include "models/model.h"
#include "models/tensor_reader.h"

#define FV_POLA_STAGES 16

typedef struct fv_pola_block {
    bool linear;        /* polarity-aware linear attention, else softmax */
    uint32_t reduction; /* PVT: keys come from a grid this much coarser; 1: from the same */
    uint32_t window;    /* Swin: tokens per side; 0: one window, whatever the grid */
    uint32_t shift;     /* Swin: tokens, on a grid that is larger than the window */
    fv_layer ln1;
    fv_layer reduce, reduce_ln; /* reduction > 1 */
    /* Attention over the whole grid: K, V rows; Q rows and, if linear, V rows (not when reduced)
     * and gate rows. */
    fv_layer kv, q;
    fv_layer qkv;        /* in windows: Q, K, V and, if linear, gate rows */
    fv_weight learned;   /* linear: (2, C): scale, power */
    fv_weight positions; /* linear: (keys, C); softmax in windows: ((2 window - 1)^2, heads) */
    uint32_t keys_width, keys_height; /* the grid of those keys, unless keys are not a grid */
    fv_layer dwc;                     /* linear: (head dimension, kernel^2) */
    fv_layer proj;
    fv_layer ln2, fc1, fc2;
} fv_pola_block;

typedef struct fv_pola_stage {
    uint32_t width, depth, heads, hidden;
    uint32_t native_width, native_height; /* tokens, for a picture of the native size */
    /* What makes the stage's tokens: a convolution, then a norm (may be absent); in later stages of
     * Swin a norm of four tokens side by side, then a matrix. */
    fv_layer embed, embed_ln;
    fv_weight positions;  /* (native tokens, C); may be absent */
    fv_pola_block *block; /* depth of them */
    fv_layer norm;        /* Swin's dense backbones: of the stage's output; or absent */
} fv_pola_stage;

typedef struct fv_pola {
    uint32_t stages, patch, kernel; /* kernel: side of the depthwise filters */
    float alpha, block_eps;
    float qk_scale; /* of softmax blocks; 0: 1 / sqrt(head dimension) */
    bool by_count;  /* positions of as many keys as there are belong to them, whatever the grid */
    fv_pola_stage stage[FV_POLA_STAGES];
    fv_layer norm; /* Swin: before the head; absent in dense backbones */
    fv_layer head; /* may be absent */
} fv_pola;

static inline uint32_t fv_pola_head_dim(const fv_pola_stage *s)
{
    return s->width / s->heads;
}

/* ---- reading (polaformer_read.c) ---- */

typedef struct fv_pola_reader {
    fv_tensor_reader t;
    const fv_config *config;
    fv_pola *p;
    const char *kinds; /* attn_type: a letter per stage, or NULL */
    uint32_t mixed;    /* leading linear blocks of 'M' stages */
    char block[64];    /* prefix of the block being read */
} fv_pola_reader;

/* Stages, depths, kinds, the picture and the numbers that both constructors have; then widths,
 * heads and MLPs, of which `mlp` names the ratio or the list of them. */
fovea_status fv_pola_read_sizes(fv_pola_reader *r);
fovea_status fv_pola_read_widths(fv_pola_reader *r, const uint32_t *width, const char *mlp);

/* Convolution stem + "weight" (rows, channels, size, size) and stem + "bias"; by_tap: its columns
 * become (ky, kx, channel). */
fovea_status fv_pola_read_conv(fv_layer *l, fv_pola_reader *r, const char *prefix, const char *stem,
                               const uint32_t shape[3], bool by_tap);

/* A matrix of `blocks` times the stage's width rows, with its bias if there is one. */
typedef struct fv_pola_fused {
    const fv_tensor *w, *b; /* b NULL: none */
    uint32_t width;
} fv_pola_fused;
fovea_status fv_pola_read_fused(fv_pola_fused *out, fv_pola_reader *r, const fv_pola_stage *s,
                                const char *stem, uint32_t blocks);
/* `count` of its blocks, from `from` on, become those of w and b from `to` on. */
void fv_pola_cut(fv_layer *l, const fv_pola_fused *f, uint32_t from, uint32_t to, uint32_t count);
/* w and b of `blocks` times width rows, to be filled by fv_pola_cut. */
void fv_pola_empty(fv_layer *l, uint32_t blocks, uint32_t width, bool biased);

/* Sets r->block to the prefix of block j of stage i, and finds its kind by the tensor that only one
 * kind has. */
fovea_status fv_pola_find_block(fv_pola_reader *r, uint32_t i, uint32_t j, const char *prefix,
                                const char *linear, const char *softmax);
/* Reads a block without the projections before its attention; `keys`: positions of a linear one. */
fovea_status fv_pola_read_block(fv_pola_reader *r, const fv_pola_stage *s, fv_pola_block *b,
                                uint64_t keys);

/* r for m, whose roles are made; `first` is the stem of a tensor that every such model has. */
fovea_status fv_pola_start(fv_pola_reader *r, fovea_model *m, const struct fv_source *source,
                           const fv_config *config, const char *first);
/* Classes of the head that a training asks for; 0: none. */
uint32_t fv_pola_new_classes(const fv_pola_reader *r);
/* Reads the head, fills m->info, allocates the list of outputs, and checks that every tensor was
 * used. */
fovea_status fv_pola_finish(fv_pola_reader *r);
/* Adds the queries and keys of all blocks to the outputs, as the last of them. */
fovea_status fv_pola_list_blocks(const fv_pola_reader *r);
void fv_pola_release(fovea_model *m);

/* ---- synthetic checkpoints (polaformer_synthetic.c) ---- */

const char *fv_pola_pvt_synthetic(size_t index);
fovea_status fv_pola_pvt_make_synthetic(struct json_t **config, struct fv_source *source,
                                        const char *name);
const char *fv_pola_swin_synthetic(size_t index);
fovea_status fv_pola_swin_make_synthetic(struct json_t **config, struct fv_source *source,
                                         const char *name);

/* ---- computing (polaformer.c) ---- */

typedef struct fv_pola_context {
    fv_builder *b;
    const fovea_model *m;
    const fv_pola *p;
    const fv_pola_stage *s;
    const fv_pola_block *w;
    uint32_t stage, block; /* their numbers */
    fv_grid grid;
    fv_view x;                        /* the residual stream: another value after every addition */
    fv_level feature[FV_POLA_STAGES]; /* of the later stages, for a decoder */
} fv_pola_context;

/* ENOTSUP: an attention that the weights were not made for. */
fovea_status fv_pola_check_attention(const fv_builder *b);
/* Offers the queries ('q') or keys ('k') of the block, as its attention gets them. */
void fv_pola_offer_rows(const fv_pola_context *c, char what, fv_view rows, uint32_t n,
                        const fv_grid *grid);
/* Notes the attention of the block for its queries, `rows` of them; NULL: it is not wanted. */
fv_attended *fv_pola_note(const fv_pola_context *c, const fv_attention *a, uint32_t rows);
/* Goes on to a block of the stage: c->w, and the labels of its steps. */
void fv_pola_enter_block(fv_pola_context *c, uint32_t block);
/* Attention of the block as its mechanism wants it, without k and v. */
fv_attention fv_pola_attention(const fv_pola_context *c, uint32_t queries, uint32_t keys);
/* p, a table on a grid, for `grid`: resized, unless it is of that grid, or by_count of as many
 * tokens. */
fv_posemb fv_pola_positions(fv_posemb p, const fv_grid *grid, bool by_count);
/* The grid of the block's keys: that of the tokens, or a coarser one. */
fv_grid fv_pola_key_grid(const fv_pola_block *w, const fv_grid *grid);
/* (attention + depthwise convolution of v) * gate, over `count` grids. */
fv_view fv_pola_convolve(const fv_pola_context *c, const fv_grid *grid, uint32_t count,
                         fv_view attention, fv_view v, fv_view gate);
/* x + projection of the attention over the whole grid. */
void fv_pola_attend(fv_pola_context *c);
/* x + mlp(norm of x). */
void fv_pola_mlp(fv_pola_context *c);
/* Copies rows to output `name`, with the number of the stage from 1, where it is wanted. */
void fv_pola_offer(const fv_pola_context *c, const char *name, fv_view rows);
/* Emits the stage as a feature, and its segmentation logits, where they are wanted; eps: of its
 * norm. */
void fv_pola_offer_stage(fv_pola_context *c, float eps);
/* The weights of a purpose: of a head alone, as nothing else is trained. */
void fv_pola_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                     void *ctx);
/* Mean of the tokens and the head. */
void fv_pola_classify(const fv_pola_context *c, fv_view rows);

#endif
