/* attention.h: the names that users give attentions, and what they stand for. */
#ifndef FOVEA_SRC_ATTENTION_H
#define FOVEA_SRC_ATTENTION_H

#include "kernel.h"
#include "status.h"

enum fv_attention_kind {
    FV_ATTENTION_SOFTMAX,
    FV_ATTENTION_LINEAR,    /* of sums: scale and eps are those of sums */
    FV_ATTENTION_MECHANISM, /* a mechanism with an equation of its own, of means */
    FV_ATTENTION_MALA_PAPER,
    FV_ATTENTION_RETENTION, /* from here on causal only */
    FV_ATTENTION_GLA,
    FV_ATTENTION_DELTA,
    FV_ATTENTION_GATED_DELTA,
};

typedef struct fv_attention_name {
    enum fv_attention_kind kind;
    uint32_t mech; /* enum fv_mech, causal: its feature map; FV_MECH_ANY: softmax */
    bool gated;    /* "sla-" */
} fv_attention_name;

/* ENOTSUP lists the names. */
fovea_status fv_attention_parse(fv_attention_name *out, const char *text);
/* Whether it can be had with, or without, `causal`. */
fovea_status fv_attention_check(const fv_attention_name *name, bool causal);
/* Its name, as fv_attention_parse takes it. */
const char *fv_attention_text(const fv_attention_name *name, char buf[64]);

#endif
