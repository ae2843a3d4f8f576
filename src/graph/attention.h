/* attention.h: the names that users give attentions, and what they mean. */
#ifndef FOVEA_SRC_ATTENTION_H
#define FOVEA_SRC_ATTENTION_H

#define FV_STATE_MOST (1u << 30) /* floats of a state, all heads */

#include "base/status.h"
#include "ops/kernel.h"

enum fv_attention_kind {
    FV_ATTENTION_SOFTMAX,
    FV_ATTENTION_FOVEATED,
    FV_ATTENTION_LINEAR,    /* its states are sums: scale and eps apply to sums */
    FV_ATTENTION_MECHANISM, /* a mechanism with its own equation; its states are means */
    FV_ATTENTION_MALA_PAPER,
    FV_ATTENTION_RETENTION, /* from here on causal only */
    FV_ATTENTION_GLA,
    FV_ATTENTION_DELTA,
    FV_ATTENTION_GATED_DELTA,
};

typedef struct fv_attention_name {
    enum fv_attention_kind kind;
    uint32_t mech;   /* the feature map: enum fv_mech, which is causal except with MALA;
                        FV_MECH_ANY: softmax */
    bool gated;      /* "sla-" */
    uint32_t margin; /* FOVEATED: "foveated:4" */
} fv_attention_name;

/* ENOTSUP lists the names. */
fovea_status fv_attention_parse(fv_attention_name *out, const char *text);
/* Checks that the mechanism supports causal (or bidirectional) attention. ENOTSUP. */
fovea_status fv_attention_check(const fv_attention_name *name, bool causal);
/* The mechanism whose features the causal form of this attention uses. */
uint32_t fv_attention_map(const fv_attention_name *name);
/* Writes the attention's name, as fv_attention_parse reads it. */
const char *fv_attention_text(const fv_attention_name *name, char buf[64]);

/* attention_blocks.c */
/* Parses a name for all blocks, then after each '+' a name for some of them ("softmax@3",
 * "mala@0-3", "mala@8-" to the last block); later ones replace earlier ones. *out: one per block,
 * to be freed with fv_mem_free. EINVAL for a block that the model does not have. */
fovea_status fv_attention_blocks(fv_attention_name **out, const char *text, uint32_t blocks);
/* Checks that the blocks of a model can have these attentions. */
fovea_status fv_attention_blocks_check(const fv_attention_name *name, uint32_t blocks);
/* Makes such a text from a list of one plain name per block; to be freed with fv_mem_free. */
fovea_status fv_attention_join(char **out, const char *const *name, uint32_t blocks);

#endif
