/* oracle.h: attention and activations in double precision, directly from their equations.
 *
 * The code is slow on purpose: it has no tiles, uses states only where a state is the definition,
 * and shares nothing with the kernels.
 */
#ifndef FOVEA_TESTS_ORACLE_H
#define FOVEA_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/kernel.h"

/* Returns the activation among `epi` (FV_EPI_*) of x, or x if `epi` has none. */
double oracle_activation(uint32_t epi, double x);
/* Its derivative. */
double oracle_slope(uint32_t epi, double x);

/* One row of q or k with all heads: heads * d values. */
typedef struct oracle_row {
    const float *x;
    uint32_t heads, d;
    const float *channel_scale, *power; /* of pola: heads * d learned values, or NULL for zeros */
    double alpha;
} oracle_row;

/* Return the number of feature blocks of d channels, and of value slices that pair the blocks
 * differently. */
uint32_t oracle_blocks(enum fv_mech mech);
uint32_t oracle_streams(enum fv_mech mech);

/* Computes the features of head `head`, block after block: oracle_blocks() * d values. They are
 * never shifted: exp is e^x, even if that overflows. */
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
    const double *k_features;         /* from oracle_key_features(); NULL: computed for each row */
} oracle_attention;

/* Returns the features of all keys and heads, to save time; the caller frees them. */
double *oracle_key_features(const oracle_attention *a);

/* Computes the weights of row `row` of head `head` for all keys: out = sum_j weights[j] v_j.
 * `stream` is 1 for pola's second half of the channels, else 0. */
void oracle_weights(const oracle_attention *a, uint32_t row, uint32_t head, uint32_t stream,
                    double *weights);

/* Computes row `row` of the output in O(keys): heads * dv values. */
void oracle_attend(const oracle_attention *a, uint32_t row, double *out);

/* A causal mechanism with a state, computed token by token. */
typedef struct oracle_sequence {
    enum fv_mech mech; /* the feature map, or MALA */
    uint32_t heads, d, dv, rows;
    double scale, eps;
    double scale_by_tokens; /* MALA: added to scale for every token so far */
    bool normalise, delta, l2norm;
    const float *q, *k, *v; /* packed rows */
    const float *log_decay; /* (rows x heads), or with decay_channel (rows x heads * d); or NULL */
    bool decay_channel, decay_constant; /* constant: one row for all tokens */
    const float *beta;                  /* (rows x heads), with delta */
    const float *gate_q, *gate_k;       /* (rows x heads), or NULL */
} oracle_sequence;

/* Returns the number of values of a state: S (heads, d', dv), then with normalise Z (heads, d').
 * For MALA: the covariance of features and values (heads, d, dv), their means (heads, d) and
 * (heads, dv), and the token counts (heads). */
size_t oracle_state_size(const oracle_sequence *s);

/* Updates `state` with all rows, at least one. `out` receives rows of heads * dv, or is NULL. */
void oracle_scan(const oracle_sequence *s, double *state, double *out);

/* Computes the cos and sin of MAViT's RoPE2D angles (width * height x d); d is a multiple of 4. */
void oracle_rope(uint32_t width, uint32_t height, uint32_t d, float *rope_cos, float *rope_sin);

#endif
