/* attention.h: parses the names that users give attentions. */
#ifndef FOVEA_SRC_ATTENTION_H
#define FOVEA_SRC_ATTENTION_H

#define FV_STATE_MOST (1u << 30) /* floats of a state, all heads */

#include "base/status.h"
#include "ops/kernel.h"

enum fv_attention_kind {
    FV_ATTENTION_SOFTMAX,
    FV_ATTENTION_FOVEATED,
    FV_ATTENTION_LINEAR,    /* its states are sums, and scale and eps apply to sums */
    FV_ATTENTION_MECHANISM, /* a mechanism with its own equation; its states are means */
    FV_ATTENTION_MALA_PAPER,
    FV_ATTENTION_RETENTION, /* this kind and those that follow are only causal */
    FV_ATTENTION_GLA,
    FV_ATTENTION_DELTA,
    FV_ATTENTION_GATED_DELTA,
};

typedef struct fv_attention_name {
    enum fv_attention_kind kind;
    uint32_t mech;   /* feature map, enum fv_mech, which is causal except with MALA; FV_MECH_ANY:
                        softmax */
    bool gated;      /* the name begins with "sla-" */
    uint32_t margin; /* FOVEATED: margin in tokens, 4 in "foveated:4" */
} fv_attention_name;

/* Parses a name. Returns FOVEA_ENOTSUP for an unknown name, with a message that lists the names. */
fovea_status fv_attention_parse(fv_attention_name *out, const char *text);
/* Checks that the mechanism supports causal (or bidirectional) attention. Returns FOVEA_ENOTSUP if
 * it does not. */
fovea_status fv_attention_check(const fv_attention_name *name, bool causal);
/* Returns the mechanism whose features the causal variant of this attention uses. */
uint32_t fv_attention_map(const fv_attention_name *name);
/* Writes the attention's name in the syntax of fv_attention_parse. */
const char *fv_attention_text(const fv_attention_name *name, char buf[64]);

/* attention_blocks.c */
/* Parses a name for all blocks, then after each '+' a name for some blocks ("softmax@3",
 * "mala@0-3", "mala@8-" to the last block); later names replace earlier ones. Sets *out to an array
 * with one element per block, to be freed with fv_mem_free. Returns FOVEA_EINVAL for a block that
 * the model does not have. */
fovea_status fv_attention_blocks(fv_attention_name **out, const char *text, uint32_t blocks);
/* Checks that the blocks of a model support these attentions. */
fovea_status fv_attention_blocks_check(const fv_attention_name *name, uint32_t blocks);
/* Makes such a text from one plain name per block; free it with fv_mem_free. */
fovea_status fv_attention_join(char **out, const char *const *name, uint32_t blocks);

#endif
