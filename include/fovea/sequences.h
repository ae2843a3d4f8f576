/* sequences.h: causal models, fed token by token or many at once: language models of linear token
 * mixers (RetNet, GLA, DeltaNet, Gated DeltaNet, each with SLA's gates) and of softmax attention
 * with a cache of keys and values; and such a mixer by itself. A part of fovea.h, whose rules hold
 * here.
 *
 * A sequence is a model, what it remembers of the tokens so far, and the plans that advance it: one
 * of `rows` tokens at a time, for prompts, and one of a single token. What linear mixers remember
 * has one size for any number of tokens (operations.h has the equations):
 *
 *     S_t = decay_t S_{t-1} + ..;   out_t = q_t S_t;   and the last inputs of short convolutions
 *
 * Models are loaded by fovea_model_load, from checkpoints that transformers has written of
 * flash-linear-attention's models (model_type gla, retnet, delta_net, gated_deltanet, transformer).
 * Where the checkpoint, or what stands behind fovea_model_options.prefix, has the tensors of one
 * layer alone ("q_proj.weight", ..), it is a token mixer, which takes rows and gives rows.
 */
#ifndef FOVEA_SEQUENCES_H
#define FOVEA_SEQUENCES_H

#include <fovea/operations.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_sequence fovea_sequence;

typedef struct fovea_sequence_options {
    size_t struct_size;
    uint32_t rows;    /* tokens at a time, where many are fed at once; 0: 256 */
    uint32_t context; /* tokens that softmax attention has room for; 0: 2048. Linear mixers have no
                         such limit and no such memory */
    int all_logits;   /* nonzero: logits of every token that is fed, not of the last alone */
    fovea_form form;  /* of scans over many tokens */
    fovea_schedule schedule;
    fovea_dtype weights;   /* how they are stored, as in fovea_plan_options */
    fovea_compute compute; /* of products with weights; AUTO is F32 */
    uint64_t memory_limit; /* bytes without weights, of each plan; 0: none */
    int dry; /* nonzero: it can be asked for its plans and memory, but remembers and runs nothing */
} fovea_sequence_options;
#define FOVEA_SEQUENCE_OPTIONS_INIT FOVEA_INIT(fovea_sequence_options, )

/* Plans a sequence that has no tokens yet. Afterwards nothing is allocated. EINVAL: the model sees
 * pictures; ENOTSUP, ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_sequence_create(fovea_sequence **out, const fovea_model *model,
                                             fovea_device *device,
                                             const fovea_sequence_options *options);
FOVEA_API void fovea_sequence_free(fovea_sequence *sequence);

typedef struct fovea_sequence_info {
    size_t struct_size;
    uint32_t rows, context;     /* context 0: the model remembers all tokens in one size */
    uint32_t vocabulary, width; /* vocabulary 0: it is a mixer, of rows of `width` */
    uint64_t tokens;            /* that it has seen */
    uint64_t weights;           /* bytes, shared by sequences of a model */
    uint64_t states;            /* bytes of what it remembers, cache included */
    uint64_t activations;       /* bytes beside these: of both plans */
    double flops;               /* of a token by itself */
} fovea_sequence_info;
#define FOVEA_SEQUENCE_INFO_INIT FOVEA_INIT(fovea_sequence_info, )

/* The plan of a single token, or with `many` of `rows` of them, to be queried, traced and verified.
 * It belongs to the sequence. Thread-safe. */
FOVEA_API fovea_plan *fovea_sequence_plan(const fovea_sequence *sequence, int many);

/* The functions below: one thread at a time per sequence. */

/* Describes the sequence. */
FOVEA_API fovea_status fovea_sequence_query(const fovea_sequence *sequence,
                                            fovea_sequence_info *out);
/* Continues by `n` tokens, 1 and more. `logits` gets those of what follows the last of them,
 * `vocabulary` floats, or with all_logits of each, n * vocabulary; NULL: nobody asks. `floats`: its
 * size. Any division of a sequence into calls gives the same results up to rounding. EINVAL, for an
 * id past the vocabulary, more tokens than a cache has room for or a buffer that is too small,
 * leaves the sequence as it was; after EDEVICE it is undefined until it is reset. EFORMAT: a logit
 * is NaN, by a weight that is no number or a value that 16 bits do not hold; the tokens were fed,
 * the logits are there, and what follows is NaN too until it is reset. */
FOVEA_API fovea_status fovea_sequence_feed(fovea_sequence *sequence, const uint32_t *ids, size_t n,
                                           float *logits, size_t floats);
/* The same for a mixer by itself: n rows of `width` floats in and out. */
FOVEA_API fovea_status fovea_sequence_mix(fovea_sequence *sequence, fovea_matrix x, size_t n,
                                          fovea_matrix out);
/* Sets how many tokens count as seen. A cache of keys and values is cut there, or counts what it
 * happens to hold up to there; the states of linear mixers stay as they are, since they cannot go
 * back. EINVAL for more tokens than there is room for. */
FOVEA_API fovea_status fovea_sequence_seek(fovea_sequence *sequence, uint64_t tokens);
/* Forgets all tokens. */
FOVEA_API fovea_status fovea_sequence_reset(fovea_sequence *sequence);

/* What a sequence remembers as bytes, that another process and another kind of device can go on
 * with: the same model, weights and context. */
FOVEA_API size_t fovea_sequence_size(const fovea_sequence *sequence);
FOVEA_API fovea_status fovea_sequence_save(const fovea_sequence *sequence, void *out, size_t bytes);
/* EFORMAT: it was saved of another model or with another context, by another version, or is
 * damaged; the sequence is left as it was. */
FOVEA_API fovea_status fovea_sequence_restore(fovea_sequence *sequence, const void *in,
                                              size_t bytes);
/* Makes a second sequence that has seen the same tokens, on the same device. */
FOVEA_API fovea_status fovea_sequence_fork(fovea_sequence **out, const fovea_sequence *sequence);

FOVEA_END_DECLS

#endif
