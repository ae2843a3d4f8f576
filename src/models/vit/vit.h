/* vit.h: the ViT families: their kinds, roles, readers and emitters. */
#ifndef FOVEA_SRC_MODELS_VIT_H
#define FOVEA_SRC_MODELS_VIT_H

#include "models/model.h"
#include "ops/rope.h"

/* ---- roles ---- */

/* The modules that the authors of an attention mechanism put around it. Any of them may be
 * absent. */
typedef struct fv_vit_module {
    fv_layer v;   /* the V rows of kv, if there is dwc */
    fv_layer dwc; /* convolution of v over the patches: (head dimension, or C; size^2) */
    fv_layer ln;  /* norm of the sum, before the gate */
    fv_layer gate;
} fv_vit_module;

typedef struct fv_vit_block {
    fv_layer ln1, q, kv, proj; /* kv: K rows, then V rows */
    fv_layer inner;            /* norm of the attention's output, before proj; may be absent */
    /* (1, d): each head's part of q or k is divided by its root mean square and multiplied by
     * this; absent without such norms */
    fv_weight norm_q, norm_k;
    fv_weight ls1;
    fv_layer ln2, fc1, fc2; /* SwiGLU: fc1 has the value rows, then the gate rows */
    fv_layer inner_mlp;     /* norm of the input of fc2; may be absent */
    fv_weight ls2;
    /* (heads, C): weights for logits of SLA's gates; absent if gates are equal */
    fv_weight sla_q, sla_k;
    fv_weight vectors; /* (n, C): learned vectors of the feature map; absent for zeros */
    fv_vit_module module;
    /* map_q, map_k: hedgehog's learned maps, (C, C), with a diagonal block per head; absent if q
     * and k are not mapped. k, v: the rows of kv, if there is map_k. mapped_q, mapped_k: for
     * inference, q and k with their maps folded in; absent if folding is not possible. */
    fv_layer map_q, map_k, k, v, mapped_q, mapped_k;
    /* like fv_vit.bias, whose values it includes; if absent, only fv_vit.bias applies */
    fv_weight bias;
    bool windowed; /* tokens attend only to those in their window */
} fv_vit_block;

typedef struct fv_vit { /* More than 25 fields: the weights and sizes of a model */
    uint32_t width, depth, heads, hidden; /* hidden: input channels of fc2 */
    fovea_linear_attention_params linear; /* all parameters, with defaults filled in */
    uint32_t patch, channels;             /* channels is 3 */
    uint32_t window;       /* side of a window in patches, for blocks with windows; else 0 */
    uint32_t patch_pad;    /* pixels of zero padding around the picture */
    uint32_t prefix;       /* rows before the patches: class, distillation, registers */
    uint32_t class_tokens; /* number of leading prefix rows that heads read: 0, 1 or 2 */
    uint32_t table_width, table_height; /* grid of the position table */
    enum fv_pos_rule pos_rule;
    /* MIXED: (2 depth heads, d/2): the x axis of all blocks, then the y axis */
    fv_weight frequencies;
    /* rotation of q and k; channels that are rotated together are stored as neighbours */
    fv_rope rope;
    /* Biases of softmax's scores, with one value per head in each row. First come (2 bias_width -
     * 1) x (2 bias_height - 1) rows by the offset between two patches. Then follow one row each
     * from the class to a patch, from a patch to the class, and from the class to itself. Absent
     * without biases. */
    fv_weight bias;
    uint32_t bias_width, bias_height; /* the grid for which the biases were trained */
    enum fv_pos_rule bias_rule;
    uint32_t epi;  /* FV_EPI_* activation of the MLP, or FV_EPI_SWIGLU */
    bool gated;    /* with another activation than SwiGLU's: fc1 has the rows to activate, then
                      their factors */
    bool sla_of_x; /* SLA's logits are computed from the block's input instead of q and k */
    /* a token's gates sum to 1, as in SLA's paper, instead of the number of heads */
    bool sla_share;
    float eps;
    fv_layer embed; /* (C, 3*P*P) */
    /* indices of the prefix rows that the output `summary` concatenates */
    uint32_t summary[8], summaries;
    fv_weight prefix_rows; /* (prefix, C): class, distillation, registers */
    fv_weight prefix_add;  /* (prefix, C): positions to add to prefix_rows; may be absent */
    fv_weight table;       /* (table_width*table_height, C); may be absent */
    fv_layer embed_norm;   /* norm after the embedding, before the positions (AIMv2) */
    fv_layer pre;          /* norm after the embedding and the positions (CLIP) */
    fv_layer post;         /* final LayerNorm; may be absent */
    fv_layer fc_norm;      /* norm of pooler_output (timm); may be absent */
    /* the final LayerNorm is applied only to the pooled row (CLIP), so that last_hidden_state is
     * not normalised */
    bool post_on_pooled;
    /* Pooling and heads. Absent ones are not offered as outputs. */
    enum fv_vit_pool {
        FV_POOL_NONE,
        FV_POOL_CLS,  /* pooler_output: the normalised class row (DINOv2, CLIP) */
        FV_POOL_MEAN, /* pooler_output: the mean of the patches of last_hidden_state (timm) */
        /* LARGEST: the maximum over these patches in each channel; MEAN_LARGEST: the mean of
         * both */
        FV_POOL_LARGEST,
        FV_POOL_MEAN_LARGEST,
        FV_POOL_CLS_TANH, /* pooler_output: tanh(pool_w row + pool_b) (ViT, DeiT) */
        FV_POOL_MAP,      /* pooler_output: attention pooling (SigLIP) */
    } pool;
    fv_layer pooler;
    enum fv_vit_head {
        FV_HEAD_NONE,
        FV_HEAD_CLS,      /* head_w (classes, C) on the normalised class row */
        FV_HEAD_CLS_DIST, /* head_w (classes, 2C) on [class, distillation]; the mean of two heads */
        FV_HEAD_CLS_MEAN, /* head_w (classes, 2C) on [class, mean of patches] (DINOv2) */
        /* head_w (classes, C) on the mean of the patches of last_hidden_state
         * (CLIPForImageClassification, SiglipForImageClassification) */
        FV_HEAD_MEAN,
        FV_HEAD_POOL, /* head_w (classes, C) on pooler_output */
    } head;
    fv_layer classifier;
    fv_layer embeds; /* image_embeds = embeds pooler_output (CLIP), without a bias */
    struct {         /* joins side x side patches: fc2(gelu(fc1([LN x, ..]))) (Qwen2-VL) */
        fv_layer norm, fc1, fc2; /* columns of fc1: patch, then channel; absent without a merger */
        uint32_t side;
    } merger;
    struct { /* attention pooling: y = out(attn(probe, x, x)); y + mlp(LN(y)) */
        fv_weight probe;
        fv_layer q, kv, out, ln, fc1, fc2;
        uint32_t heads;
        bool patches; /* x has only the patches */
    } map;
    fv_vit_block *block; /* `depth` blocks */
} fv_vit;

/* ---- readers and emitters ---- */

/* vit_kinds.c */
bool fv_vit_owns(const char *model_type);
const char *fv_vit_type_name(size_t i); /* returns NULL after the last type */

/* vit_read.c: reads the roles from the names and shapes of tensors. */
fovea_status fv_vit_read(fovea_model *m, const struct fv_source *source,
                         const struct fv_config *config);
void fv_vit_release(fovea_model *m);

/* Adds the names of 3 depth + 1 outputs to m->outputs, for which the caller has allocated memory:
 * the residual stream before and after each block, and the queries and keys of each block without
 * windows. */
fovea_status fv_vit_list_blocks(fovea_model *m, const fv_vit *v);

/* vit.c: emits the steps up to the last block. Returns the residual stream, whose rows are all
 * tokens. Calls `after`, unless it is NULL, with the stream before the first block (i is 0) and
 * after block i - 1. */
typedef void fv_vit_after(void *ctx, struct fv_builder *b, uint32_t i, struct fv_view x);
struct fv_view fv_vit_emit_blocks(const fv_vit *v, struct fv_builder *b, fv_vit_after *after,
                                  void *ctx);
/* vit_stage.c: emits features of a stage from such rows x. With `normed`, applies the last norm;
 * otherwise returns x. */
struct fv_view fv_vit_emit_stage(const fv_vit *v, struct fv_builder *b, struct fv_view x,
                                 bool normed);

/* vit_bias.c: makes the biases of softmax's scores in block i, (heads * tokens, tokens), for the
 * grid of b. They are absent if the model has no biases. */
bool fv_vit_has_bias(const fv_vit *v, uint32_t i);
fv_weight fv_vit_emit_bias(const fv_vit *v, struct fv_builder *b, uint32_t i);

/* vit_whole.c: the parts of the authors' attention module around a block's mechanism. `normed` are
 * the rows from which q, k and v are computed. */
bool fv_vit_convolves(const fv_vit_module *w, uint32_t mech);
/* Returns the rows of the patches in `x`, which begins with the rows of the prefix. */
struct fv_view fv_vit_emit_patch_rows(struct fv_builder *b, struct fv_view x, uint32_t width);
/* Emits the depthwise convolution of v, which is projected from `normed`, the rows of the patches
 * only. `res` are rows to add, or FV_NO_VIEW. */
struct fv_view fv_vit_emit_dwc(struct fv_builder *b, const fv_vit_module *w, struct fv_view normed,
                               struct fv_view res);
/* Emits the addition of these parts to `seen`, the mechanism's result. `dwc` is the depthwise
 * convolution, if it was emitted earlier because of prefix tokens; otherwise this function emits
 * it. */
struct fv_view fv_vit_emit_module(struct fv_builder *b, const fv_vit_module *w, uint32_t mech,
                                  struct fv_view normed, struct fv_view dwc, struct fv_view seen);

/* Returns the rows of kv that compute k, or those that compute v. */
fv_layer fv_vit_half(const fv_layer *kv, bool values);

/* vit_synthetic.c: makes random checkpoints of the usual sizes. */
extern const struct fv_synthetic_list fv_vit_synthetics;

enum fv_vit_kind {
    FV_VIT_PLAIN,
    FV_VIT_DEIT,
    FV_VIT_DINOV2,
    FV_VIT_REGISTERS, /* DINOv2 with registers */
    FV_VIT_DINOV3,
    FV_VIT_IJEPA,
    FV_VIT_CLIP,
    FV_VIT_OWL, /* CLIP's encoder in OWL-ViT and OWLv2 */
    FV_VIT_SIGLIP,
    FV_VIT_NAFLEX,  /* SigLIP 2 for any aspect ratio */
    FV_VIT_IDEFICS, /* SigLIP's encoder in Idefics3 and SmolVLM */
    FV_VIT_RADIO,   /* C-RADIO */
    FV_VIT_BEIT,    /* BEiT, Data2Vec for pictures */
    FV_VIT_POSE,    /* backbone of ViTPose */
    FV_VIT_TIPS,    /* TIPSv2: DINOv2 with registers, whose positions are resized bilinearly */
    FV_VIT_PIXIO,   /* a ViT with several class tokens */
    FV_VIT_GIT,     /* CLIP's encoder in GIT, which normalises all tokens at the end */
    FV_VIT_BLIP,    /* BLIP, BLIP-2, InstructBLIP */
    FV_VIT_JANUS,   /* SigLIP's encoder in Janus */
    FV_VIT_INTERN,  /* InternViT in InternVL */
    FV_VIT_AIM,     /* AIMv2 */
    FV_VIT_MLCD,    /* CLIP's encoder with rotary positions */
    FV_VIT_MGP,     /* the encoder of MGP-STR, which reads text */
    FV_VIT_LW_DETR, /* backbone of LW-DETR */
    FV_VIT_YOLOS,   /* encoder of YOLOS, with detection tokens */
    FV_VIT_QWEN2,   /* Qwen2-VL, ERNIE 4.5-VL: a ViT with rotary positions only */
    FV_VIT_QWEN2_5, /* Qwen2.5-VL: windows, norms by the root mean square, a gated MLP */
    FV_VIT_QWEN3,   /* Qwen3-VL and its successors, which also have a position table */
    FV_VIT_GLM,     /* GLM-4V: norms by the root mean square, a gated MLP */
    FV_VIT_GLM_OCR, /* GLM-OCR: no position table, norms of q and k */
    FV_VIT_GLM_IMAGE,
    FV_VIT_PIXTRAL, /* norms by the root mean square, a gated MLP, rotary positions only */
    FV_VIT_KIMI,    /* MoonViT in Kimi-VL and Kimi K2.5 */
    FV_VIT_PADDLE,  /* SigLIP's encoder with rotary positions: PaddleOCR-VL, VideoLLaMA 3 */
    FV_VIT_HUNYUAN, /* HunyuanVL */
    FV_VIT_STEP,    /* Step3-VL: a ViT with layer scales, a position table and rotary positions */
    /* EVA, EVA-02 and timm's models based on them: Perception Encoder, ViTs with RoPE */
    FV_VIT_EVA,
};

/* vit_names.c: a scheme of names for the tensors of such a model. A name that ends in a separator
 * is a stem, followed by "weight" or "bias"; other names are complete. NULL means that the scheme
 * has no such part. Names follow the prefix, and in a block also the block's prefix. Names of heads
 * have no prefix. */
typedef struct fv_vit_names { /* More than 25 fields: each name has one */
    enum fv_vit_origin { FV_VIT_HF, FV_VIT_DINO, FV_VIT_TIMM, FV_VIT_OPENAI } origin;
    bool patch_positions; /* the position table has rows only for patches */
    bool in_memory;  /* names in transformers 5's memory, in a state_dict that was saved directly */
    bool neighbours; /* channels of q and k that are rotated together are neighbours already */
    uint64_t kinds;  /* a bit for each enum fv_vit_kind that uses the scheme */
    /* tensors, one of which must exist; without marks, the scheme always fits */
    const char *marks[3];
    const char *patch, *cls, *dist, *reg, *pos, *embed_norm, *pre, *post;
    const char *block; /* prefix of a block, with its number */
    const char *ln1, *ln2, *q, *k, *v, *qkv, *proj, *ls1, *ls2, *fc1, *fc2, *gated1, *gated2;
    const char *gate, *up; /* if the rows of gated1 are in two tensors */
    const char *inner, *inner_mlp;
    const char *periods;         /* d/4 periods of the rotation */
    const char *class_angles;    /* d/2 angles of the rotation of the class */
    const char *q_bias, *v_bias; /* if qkv itself has no bias */
    const char *norm_q, *norm_k; /* norms of each head's part of q and k */
    const char *merger_norm, *merger_fc1, *merger_fc2;
    const char *rel_bias;        /* biases of a block's scores by relative position */
    const char *rel_bias_shared; /* biases of scores that all blocks share, after the prefix */
    const char *fc_norm;         /* norm of the pooled row */
    const char *frequencies;     /* frequencies of the rotation, if they are learned */
    const char *pooler;          /* tanh(linear) of the class row */
    const char *probe, *map_q, *map_kv, *map_qkv, *map_proj, *map_ln, *map_fc1, *map_fc2;
    /* head_cls, head_dist: two heads whose logits are averaged */
    const char *head, *head_cls, *head_dist;
    const char *embeds, *embeds_transposed;
} fv_vit_names;

/* The schemes in the order in which they are tried. The last has a NULL patch. */
extern const fv_vit_names fv_vit_schemes[];
/* Prefixes that the names in a checkpoint may have, ended by NULL. */
extern const char *const fv_vit_prefixes[];

/* Names of timm models that cannot be read as a ViT: they begin with `begin` and contain `part`. */
typedef struct fv_vit_unlike {
    const char *begin, *part, *what;
} fv_vit_unlike;
extern const fv_vit_unlike fv_vit_unlikes[];

#endif
