/* language.h: causal language models made of token mixers: RetNet, GLA, DeltaNet, Gated DeltaNet
 * and the transformer of flash-linear-attention. */
#ifndef FOVEA_SRC_MODELS_LANGUAGE_H
#define FOVEA_SRC_MODELS_LANGUAGE_H

#include "models/language/mixer.h"

typedef struct fv_language_block {
    fv_weight attn_norm, mlp_norm;
    fv_mixer mixer;
    fv_weight up, down; /* up: the rows of gate, then of up: 2 * hidden rows */
} fv_language_block;

/* A language model, or only a mixer, `lone`, without blocks. Then no tensor's name contains a
 * block. */
typedef struct fv_language {
    enum fv_mixer_kind kind;
    uint32_t width, depth, vocabulary;
    float eps;
    fv_weight embeddings, norm, head; /* head: (vocabulary, width) */
    fv_language_block *block;
    fv_mixer lone;
} fv_language;

extern const struct fv_synthetic_list fv_language_synthetics;

#endif
