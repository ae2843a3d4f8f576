/* bench_attention.h: an attention as a benchmark sees it: what is computed, on which values. */
#ifndef FOVEA_CLI_BENCH_ATTENTION_H
#define FOVEA_CLI_BENCH_ATTENTION_H

#include "bench.h"

enum attention_kind {
    ATTENTION_SOFTMAX,
    ATTENTION_LINEAR,
    ATTENTION_MALA,
    ATTENTION_MALA_PAPER,
    ATTENTION_POLA,
    ATTENTION_NALA,
    ATTENTION_FOCUSED,
    ATTENTION_RETENTION, /* from here on causal only */
    ATTENTION_GLA,
    ATTENTION_DELTA,
    ATTENTION_GATED_DELTA,
};

enum feature_map {
    MAP_IDENTITY,
    MAP_ELU1,
    MAP_RELU,
    MAP_EXP,
    MAP_SOFTPLUS,
    MAP_SOFTMAX,
    MAP_SILU,
    MAP_FOCUSED,
    MAP_POLA, /* this and the next have two features per channel */
    MAP_NALA,
    MAP_NALA_PAPER,
};

/* Inputs and output of one shape; all cases of that shape share them. Rows are packed. */
typedef struct operands {
    struct operands *next;
    uint32_t users;
    uint32_t rows, heads, d, dv;
    fovea_dtype type;
    void *q, *k, *v, *out;                 /* of `type` */
    float *decay_channel;                  /* rows x heads*d; these are made when first needed */
    float *decay, *beta, *gate_q, *gate_k; /* rows x heads; gates as logits */
} operands;

typedef struct attention {
    enum attention_kind kind;
    enum feature_map map;
    bool gated, causal, normalise, l2norm;
    double scale, eps;
    operands *data;
} attention;

/* bench_definition.c: compares data->out with the definition in double: every value of a small
 * problem, else 64 rows spread over all, in three heads. */
void attention_verify(const attention *a, bench_verify *out);

#endif
