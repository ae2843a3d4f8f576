/* mixer.h: a token mixer of a causal model, which reads the normalised tokens of one block.
 *
 *     q, k, v = x W;  short convolutions;  feature maps;  rotation
 *     o = a scan over the tokens with a state, or softmax over a cache of keys and values
 *     y = W_o (RMSNorm(o) * act(x W_g))
 *
 * Names and shapes are those of flash-linear-attention's layers.
 */
#ifndef FOVEA_SRC_MODELS_MIXER_H
#define FOVEA_SRC_MODELS_MIXER_H

#include "checkpoint/config.h"
#include "graph/emit.h"
#include "models/tensor_reader.h"

enum fv_mixer_kind {
    FV_MIXER_SOFTMAX,
    FV_MIXER_RETENTION,
    FV_MIXER_GLA,
    FV_MIXER_DELTA,
    FV_MIXER_GATED_DELTA,
};

typedef struct fv_mixer { /* More than 25 fields: the weights and sizes of any kind */
    uint8_t kind;
    uint32_t width; /* channels of the tokens */
    uint32_t heads, kv_heads, d, dv;
    /* (q | k | v | gate): the projections of x that are computed in one product. Heads that share
     * keys get copies of the keys, except in softmax, which reads shared keys. */
    fv_weight in, in_bias;
    uint32_t gate_col, in_cols; /* first column of the gate; number of columns */
    bool gated;                 /* there is a gate */
    /* short convolutions, (channels, size), of q and k, and of v; if conv_v is absent, conv_qk is
     * of q, k and v */
    fv_layer conv_qk, conv_v;
    uint32_t conv_size;     /* 0 without convolutions */
    bool conv_silu;         /* SiLU follows conv_qk */
    uint32_t act_qk, act_v; /* FV_EPI_* after the projection, without convolutions */
    uint32_t mech;          /* feature map of the scan */
    bool l2;                /* queries and keys are normalised */
    bool rope;
    float theta;
    uint32_t window;          /* softmax: number of keys that a query sees; 0 for all */
    fv_weight q_norm, k_norm; /* softmax */
    fv_weight low;            /* GLA: projection to the low rank */
    fv_layer decay;           /* log decays: softplus(x W + b) * decay_scale */
    fv_weight decay_scale;
    fv_weight beta, beta_scale; /* sigmoid(x W) * scale; absent for 1 */
    fv_weight sla_q, sla_k;     /* compute the logits of SLA's gates from x, or from q and k */
    bool sla_of_x, sla_after;   /* sla_after: the query gate is applied after the norm */
    float sla_sum;              /* sum of a token's gates */
    fv_weight norm;             /* norm of the outputs, dv channels */
    uint32_t gate_act;          /* FV_EPI_SILU or FV_EPI_SIGMOID; 0 without a gate */
    fv_weight out;
    float eps;
} fv_mixer;

/* Describes how a mixer is run: its rows at a time, its cache, and the form of its scan. */
typedef struct fv_mixer_feed {
    uint32_t rows;              /* number of tokens at a time */
    uint32_t capacity;          /* capacity of the cache of keys and values, in tokens */
    uint32_t flags;             /* FV_FLAG_RECURRENT, FV_FLAG_CHUNKWISE or 0 */
    fv_view cos, sin, position; /* cos and sin: rows of cosines and sines by theta and d */
} fv_mixer_feed;

/* Emits a mixer of the tokens `normed`. Returns its output, plus `res` unless res.id is
 * FV_NO_VALUE. */
fv_view fv_mixer_emit(fv_builder *b, const fv_mixer *m, const fv_mixer_feed *feed, fv_view normed,
                      fv_view res);

/* The data that is needed to read a mixer. */
typedef struct fv_mixer_reader {
    fv_tensor_reader *t;
    const fv_config *config; /* the whole file */
    const fv_config *own;    /* "fovea" */
    const char *prefix;      /* prefix of its tensors, such as "model.layers.3.attn." */
} fv_mixer_reader;

/* Reads a mixer of `kind`, which config.json describes, for tokens of `width` channels. */
fovea_status fv_mixer_read(fv_mixer *m, const fv_mixer_reader *r, enum fv_mixer_kind kind,
                           uint32_t width);
/* Reads a softmax mixer of a hybrid model, which `section` describes. */
fovea_status fv_mixer_read_softmax(fv_mixer *m, const fv_mixer_reader *r, const fv_config *section,
                                   uint32_t width);

#endif
