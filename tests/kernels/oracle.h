/* oracle.h: attention and activations in double precision, straight from their equations. Slow on
 * purpose: no tiles, no states but where the state is the definition, nothing that a kernel could
 * share.
 */
#ifndef FOVEA_TESTS_ORACLE_H
#define FOVEA_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/kernel.h"

/* The activation among `epi` (FV_EPI_*) of x; x itself when there is none. */
double oracle_activation(uint32_t epi, double x);
/* Its derivative. */
double oracle_slope(uint32_t epi, double x);

/* One row of q or of k, all heads: heads * d values. */
typedef struct oracle_row {
    const float *x;
    uint32_t heads, d;
    const float *channel_scale, *power; /* of pola: heads * d as learned, or NULL: zeros */
    double alpha;
} oracle_row;

/* Feature blocks of d channels, and slices of the values which see differently paired blocks. */
uint32_t oracle_blocks(enum fv_mech mech);
uint32_t oracle_streams(enum fv_mech mech);

/* Features of head `head`, block after block: oracle_blocks() * d values. Never shifted: exp is
 * e^x, even where that overflows. */
void oracle_features(enum fv_mech mech, bool query, const oracle_row *row, uint32_t head,
                     double *out);

typedef struct oracle_attention {
    enum fv_mech mech; /* FV_MECH_ANY: softmax */
    uint32_t heads, d, dv, keys;
    double scale, eps;
    bool causal, normalise;
    const float *q, *k, *v; /* rows of heads * d, heads * d and heads * dv, packed */
    const float *channel_scale, *power;
    double alpha;
    const float *rope_cos, *rope_sin; /* (rows x d), or NULL */
    const float *gate_q, *gate_k;     /* (rows x heads), (keys x heads), or NULL */
    const double *k_features;         /* of oracle_key_features; NULL: computed for each row */
} oracle_attention;

/* Features of all keys and heads, to be freed. They only save time. */
double *oracle_key_features(const oracle_attention *a);

/* What row `row` of head `head` gives to each of the keys' values: out = sum_j weights[j] v_j.
 * `stream` is 1 for pola's second half of the channels, else 0. */
void oracle_weights(const oracle_attention *a, uint32_t row, uint32_t head, uint32_t stream,
                    double *weights);

/* Row `row` of the output in O(keys): heads * dv values. */
void oracle_attend(const oracle_attention *a, uint32_t row, double *out);

/* A causal mechanism with a state, token by token. */
typedef struct oracle_sequence {
    enum fv_mech mech; /* the feature map, or MALA */
    uint32_t heads, d, dv, rows;
    double scale, eps;
    double scale_by_tokens; /* MALA: added to scale for every token so far */
    bool normalise, delta, l2norm;
    const float *q, *k, *v; /* packed rows */
    const float *log_decay; /* (rows x heads), or with decay_channel (rows x heads * d); or NULL */
    bool decay_channel, decay_constant; /* constant: one row, for every token */
    const float *beta;                  /* (rows x heads), with delta */
    const float *gate_q, *gate_k;       /* (rows x heads), or NULL */
} oracle_sequence;

/* Values of a state: S (heads, d', dv), then with normalise Z (heads, d'). MALA: the covariance of
 * features and values (heads, d, dv), their means (heads, d) and (heads, dv), how many (heads). */
size_t oracle_state_size(const oracle_sequence *s);

/* Advances `state` by all rows, one at least; `out` gets rows of heads * dv, or is NULL. */
void oracle_scan(const oracle_sequence *s, double *state, double *out);

/* Angles of RoPE2D of MAViT as cos and sin (width * height x d), d a multiple of 4. */
void oracle_rope(uint32_t width, uint32_t height, uint32_t d, float *rope_cos, float *rope_sin);

#endif
