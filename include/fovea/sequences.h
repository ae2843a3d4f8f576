/* sequences.h: causal models, which read one token or many at a time: language models with linear
 * token mixers (RetNet, GLA, DeltaNet, Gated DeltaNet, each also with SLA's gates) or with softmax
 * attention and a cache of keys and values; and a single token mixer of this kind. This header is
 * part of fovea.h, whose rules apply here.
 *
 * A sequence is a model together with its state, which is its memory of the tokens so far, and two
 * plans that advance it: the prefill plan by `rows` tokens at a time, for prompts, and the decode
 * plan by one token. The state of linear mixers has the same size for any number of tokens
 * (operations.h has the equations):
 *
 *     S_t = decay_t S_{t-1} + ..;   out_t = q_t S_t;   and the last inputs of short convolutions
 *
 * fovea_model_load loads such models from checkpoints of flash-linear-attention in the format of
 * transformers (model_type gla, retnet, delta_net, gated_deltanet, transformer). A checkpoint that
 * has the tensors of a single layer ("q_proj.weight", ...), or has them under
 * fovea_model_options.prefix, is a token mixer: its inputs and outputs are rows of channels instead
 * of ids and logits. */
#ifndef FOVEA_SEQUENCES_H
#define FOVEA_SEQUENCES_H

#include <fovea/operations.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_sequence fovea_sequence;

typedef struct fovea_sequence_options {
    size_t struct_size;
    uint32_t rows;    /* number of tokens per run of the prefill plan; 0: 256 */
    uint32_t context; /* capacity in tokens of the cache of softmax attention; 0: 2048. Linear
                         mixers have no such limit and need no such memory */
    int all_logits;   /* nonzero: logits for every token that is fed; 0: for the last token only */
    fovea_form form;  /* how scans over many tokens are computed */
    fovea_schedule schedule;
    fovea_dtype weights;   /* storage of weights, as in fovea_plan_options */
    fovea_compute compute; /* precision of products with weights; AUTO is F32 */
    uint64_t memory_limit; /* maximum bytes of each plan without weights; 0: no limit */
    int dry; /* nonzero: allocates nothing. Plans and memory of the sequence can be queried, but
                it cannot be fed */
} fovea_sequence_options;
#define FOVEA_SEQUENCE_OPTIONS_INIT FOVEA_INIT(fovea_sequence_options, )

/* Creates a sequence without tokens. Nothing is allocated afterwards. `options` may be NULL.
 * Returns EINVAL if the model reads pictures, or ENOTSUP or ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_sequence_create(fovea_sequence **out, const fovea_model *model,
                                             fovea_device *device,
                                             const fovea_sequence_options *options);
FOVEA_API void fovea_sequence_free(fovea_sequence *sequence);

typedef struct fovea_sequence_info {
    size_t struct_size;
    uint32_t rows;        /* number of tokens per run of the prefill plan */
    uint32_t context;     /* capacity of the cache in tokens; 0: no limit */
    uint32_t vocabulary;  /* number of token ids; 0: a token mixer */
    uint32_t width;       /* channels of a token */
    uint64_t tokens;      /* number of tokens so far */
    uint64_t weights;     /* bytes, shared by the sequences of a model */
    uint64_t states;      /* bytes of the state, cache included */
    uint64_t activations; /* bytes of both plans in addition to weights and states */
    double flops;         /* FLOPs of one token that is fed by a call of its own; a multiply-add
                             counts as two */
} fovea_sequence_info;
#define FOVEA_SEQUENCE_INFO_INIT FOVEA_INIT(fovea_sequence_info, )

/* Return the plan that advances the sequence by `rows` tokens, for prompts, and the plan that
 * advances it by one token. Both are the same plan if `rows` is 1. The plans may be queried, traced
 * and verified, and belong to the sequence. Thread-safe. */
FOVEA_API fovea_plan *fovea_sequence_prefill_plan(const fovea_sequence *sequence);
FOVEA_API fovea_plan *fovea_sequence_decode_plan(const fovea_sequence *sequence);

/* One thread at a time per sequence may call the functions below. */

/* Describes the sequence. */
FOVEA_API fovea_status fovea_sequence_query(const fovea_sequence *sequence,
                                            fovea_sequence_info *out);
/* Feeds n tokens, at least 1. `logits`, if it is not NULL, receives the logits that follow the last
 * token, `vocabulary` floats, or, with all_logits, those that follow each token, n rows of
 * `vocabulary` floats. `floats` is the number of elements of `logits`. Any split of a sequence into
 * calls gives the same results up to rounding. Returns EINVAL for an id that is not below
 * `vocabulary`, for more tokens than the cache can hold, and for a buffer that is too small; the
 * sequence is then unchanged. Returns EDEVICE if the device fails; the state is then undefined
 * until the sequence is reset. Returns EFORMAT if a logit is NaN, because of a weight that is NaN
 * or a value beyond the range of a 16-bit type. The tokens were then fed and the logits written,
 * and all later logits are NaN until a reset. */
FOVEA_API fovea_status fovea_sequence_feed(fovea_sequence *sequence, const uint32_t *ids, size_t n,
                                           float *logits, size_t floats);
/* Feeds a token mixer with n tokens: rows of `width` float32 channels. `out` receives n rows.
 * Errors are those of fovea_sequence_feed. */
FOVEA_API fovea_status fovea_sequence_forward(fovea_sequence *sequence, fovea_matrix x, size_t n,
                                              fovea_matrix out);
/* Sets the number of tokens that count as read. A cache of keys and values is truncated to this
 * number; if the number is larger, the contents of its memory up to this number count as tokens.
 * The states of linear mixers cannot be rewound, and do not change. Returns EINVAL for more tokens
 * than the cache can hold. */
FOVEA_API fovea_status fovea_sequence_seek(fovea_sequence *sequence, uint64_t tokens);
/* Forgets all tokens. */
FOVEA_API fovea_status fovea_sequence_reset(fovea_sequence *sequence);

/* Returns the bytes of a saved state. */
FOVEA_API size_t fovea_sequence_size(const fovea_sequence *sequence);
/* Saves the state to `out`, which has `bytes` bytes; this must be fovea_sequence_size. Another
 * process, and another kind of device, can continue with it if model, weights and context are the
 * same. */
FOVEA_API fovea_status fovea_sequence_save(const fovea_sequence *sequence, void *out, size_t bytes);
/* Restores a saved state. Returns EFORMAT if the state is damaged, or was saved with another model,
 * context or version of the library; the sequence is then unchanged. */
FOVEA_API fovea_status fovea_sequence_restore(fovea_sequence *sequence, const void *in,
                                              size_t bytes);
/* Creates a second sequence with the same tokens, on the same device. */
FOVEA_API fovea_status fovea_sequence_fork(fovea_sequence **out, const fovea_sequence *sequence);

FOVEA_END_DECLS

#endif
