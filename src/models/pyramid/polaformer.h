/* polaformer.h: Pola-PVT, Pola-Swin and Swin: stages of blocks on increasingly coarse grids, and
 * the functions for reading and computing them that these families share. */
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
    bool linear; /* polarity-aware linear attention, instead of softmax */
    /* PVT: the grid of the keys is coarser by this factor per side; 1 for the same grid */
    uint32_t reduction;
    uint32_t window; /* Swin: tokens per side; 0 for one window over any grid */
    uint32_t shift;  /* Swin: tokens to shift by, if the grid is larger than the window */
    fv_layer ln1;
    fv_layer reduce, reduce_ln; /* only if reduction > 1 */
    /* For attention over the whole grid. kv: K and V rows. q: Q rows and, if linear, V rows (unless
     * reduction > 1) and gate rows. */
    fv_layer kv, q;
    fv_layer qkv;        /* for attention in windows: Q, K, V rows and, if linear, gate rows */
    fv_weight learned;   /* linear: (2, C): scale, power */
    fv_weight positions; /* linear: (keys, C); softmax in windows: ((2 window - 1)^2, heads) */
    /* the grid of the keys in `positions`, if they are on a grid */
    uint32_t keys_width, keys_height;
    fv_layer dwc; /* linear: (head dimension, kernel^2) */
    fv_layer proj;
    fv_layer ln2, fc1, fc2;
} fv_pola_block;

typedef struct fv_pola_stage {
    uint32_t width, depth, heads, hidden;
    /* tokens of a picture of the native size, in each direction */
    uint32_t native_width, native_height;
    /* Layers that make the stage's tokens: a convolution, then a norm, which may be absent. In
     * later stages of Swin: a norm of four concatenated tokens, then a matrix. */
    fv_layer embed, embed_ln;
    fv_weight positions;  /* (native tokens, C); may be absent */
    fv_pola_block *block; /* `depth` blocks */
    fv_layer norm;        /* Swin's dense backbones: norm of the stage's output; may be absent */
} fv_pola_stage;

typedef struct fv_pola {
    uint32_t stages, patch, kernel; /* kernel: side of the depthwise filters */
    float alpha, block_eps;
    float qk_scale; /* scale of softmax blocks; 0 for 1 / sqrt(head dimension) */
    /* a position table with the right number of rows is used without resizing, on any grid */
    bool by_count;
    bool always_shift; /* Swin: odd blocks shift on grids that are not larger than a window too */
    bool of_timm;      /* Swin: shifts follow timm's rules */
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
    fv_tensor_reader outer; /* for the parts around the stages; `t` may have a longer root */
    const fv_config *whole; /* config.json */
    fv_config config;       /* the part of it that describes the pyramid */
    const char *prefix;     /* prefix of the names of the pyramid's tensors */
    fv_pola *p;
    const char *head;  /* stem of the classification head */
    const char *kinds; /* attn_type: one letter per stage; or NULL */
    uint32_t mixed;    /* number of leading linear blocks in 'M' stages */
    char block[64];    /* prefix of the block being read */
} fv_pola_reader;

/* fv_pola_read_sizes reads stages, depths, kinds, the picture's size and the numbers that both
 * constructors have. fv_pola_read_widths then reads widths, heads and MLPs. `mlp` is the key of the
 * MLPs' ratio or list of ratios. */
fovea_status fv_pola_read_sizes(fv_pola_reader *r);
fovea_status fv_pola_read_widths(fv_pola_reader *r, const uint32_t *width, const char *mlp);

/* Reads a convolution: stem + "weight" (rows, channels, size, size) and stem + "bias". With by_tap,
 * its columns are reordered to (ky, kx, channel). */
fovea_status fv_pola_read_conv(fv_layer *l, fv_pola_reader *r, const char *prefix, const char *stem,
                               const uint32_t shape[3], bool by_tap);

/* A matrix of several blocks of rows, such as Q, K and V, with its bias if there is one. Each block
 * has as many rows as the stage's width. */
typedef struct fv_pola_fused {
    const fv_tensor *w, *b; /* b is NULL without a bias */
    uint32_t width;
} fv_pola_fused;
fovea_status fv_pola_read_fused(fv_pola_fused *out, fv_pola_reader *r, const fv_pola_stage *s,
                                const char *stem, uint32_t blocks);
/* Assigns `count` blocks of `f`, from block `from` on, to the weight and bias of *l, from block
 * `to` on. */
void fv_pola_cut(fv_layer *l, const fv_pola_fused *f, uint32_t from, uint32_t to, uint32_t count);
/* Makes the weight and bias of *l with `blocks` times `width` rows, which fv_pola_cut fills. */
void fv_pola_empty(fv_layer *l, uint32_t blocks, uint32_t width, bool biased);

/* Sets r->block to the prefix of block j of stage i, and determines its kind from the tensor that
 * only one kind has. */
fovea_status fv_pola_find_block(fv_pola_reader *r, uint32_t i, uint32_t j, const char *prefix,
                                const char *linear, const char *softmax);
/* Reads a block without the projections before its attention. `keys` is the number of positions of
 * a linear block. */
fovea_status fv_pola_read_block(fv_pola_reader *r, const fv_pola_stage *s, fv_pola_block *b,
                                uint64_t keys);

/* Sets up r for m and allocates the roles. */
fovea_status fv_pola_begin(fv_pola_reader *r, fovea_model *m, const struct fv_source *source,
                           const fv_config *config);
/* Does the same for a PolaFormer: also checks the fields of its configuration, and finds the root
 * of its tensors. `first` is the stem of a tensor that every such model has. */
fovea_status fv_pola_start(fv_pola_reader *r, fovea_model *m, const struct fv_source *source,
                           const fv_config *config, const char *first);
/* Returns the number of classes of the head to add for training, or 0 for no head. */
uint32_t fv_pola_new_classes(const fv_pola_reader *r);
/* Reads the head, sets m->info, allocates the list of outputs, and checks that every tensor was
 * used. */
fovea_status fv_pola_finish(fv_pola_reader *r);
/* Adds the queries and keys of all blocks to the outputs, after all others. */
fovea_status fv_pola_list_blocks(const fv_pola_reader *r);
void fv_pola_release(fovea_model *m);

/* ---- synthetic checkpoints (polaformer_synthetic.c) ---- */

extern const struct fv_synthetic_list fv_pola_pvt_synthetics;
extern const struct fv_synthetic_list fv_pola_swin_synthetics;

/* ---- computing (polaformer.c) ---- */

typedef struct fv_pola_context {
    fv_builder *b;
    const fovea_model *m;
    const fv_pola *p;
    const fv_pola_stage *s;
    const fv_pola_block *w;
    uint32_t stage, block; /* numbers of the current stage and block */
    fv_grid grid;
    fv_view x; /* the residual stream, which is a new value after every addition */
    fv_level feature[FV_POLA_STAGES]; /* features of the stages, for a decoder */
} fv_pola_context;

/* Returns FOVEA_ENOTSUP for an attention for which the weights were not trained. */
fovea_status fv_pola_check_attention(const fv_builder *b);
/* Offers the queries ('q') or keys ('k') of the block as an output, in the form that its attention
 * reads. */
void fv_pola_offer_rows(const fv_pola_context *c, char what, fv_view rows, uint32_t n,
                        const fv_grid *grid);
/* Records the block's attention for later inspection; `rows` is the number of queries. Returns NULL
 * if no record is requested. */
fv_attended *fv_pola_note(const fv_pola_context *c, const fv_attention *a, uint32_t rows);
/* Begins a block of the stage: sets c->w, and the labels of its steps. */
void fv_pola_enter_block(fv_pola_context *c, uint32_t block);
/* Returns the block's attention, set up for its mechanism, except k and v. */
fv_attention fv_pola_attention(const fv_pola_context *c, uint32_t queries, uint32_t keys);
/* Returns the position table p for `grid`. The table is resized, unless it is for this grid or,
 * with by_count, for the same number of tokens. */
fv_posemb fv_pola_positions(fv_posemb p, const fv_grid *grid, bool by_count);
/* Returns the grid of the block's keys: the grid of the tokens, or a coarser one. */
fv_grid fv_pola_key_grid(const fv_pola_block *w, const fv_grid *grid);
/* Emits (attention + depthwise convolution of v) * gate, over `count` grids, and returns its
 * rows. */
fv_view fv_pola_convolve(const fv_pola_context *c, const fv_grid *grid, uint32_t count,
                         fv_view attention, fv_view v, fv_view gate);
/* Emits x = x + projection of the attention over the whole grid. */
void fv_pola_attend(fv_pola_context *c);
/* Emits x + mlp(norm of x), and returns it. */
void fv_pola_mlp(fv_pola_context *c);
/* Copies rows to output `name`, in which the stage is numbered from 1, if that output is
 * requested. */
void fv_pola_offer(const fv_pola_context *c, const char *name, fv_view rows);
/* Emits the stage's feature and its segmentation logits, if they are requested. `eps` is for the
 * stage's norm. */
void fv_pola_offer_stage(fv_pola_context *c, float eps);
/* Visits the weights with a purpose. These are only weights of the head, because no others can be
 * trained. */
void fv_pola_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                     void *ctx);
/* Emits the mean of the tokens, "pooler_output", and the head on it. */
void fv_pola_classify(const fv_pola_context *c, fv_view rows);

#endif
