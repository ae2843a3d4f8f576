/* oracle.h: attention and activations in double precision, straight from their equations. Slow on
 * purpose: no tiles, no states, nothing that a kernel could share.
 */
#ifndef FOVEA_TESTS_ORACLE_H
#define FOVEA_TESTS_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel.h"

/* The activation among `epi` (FV_EPI_*) of x; x itself when there is none. */
double oracle_activation(uint32_t epi, double x);

/* The feature map of a mechanism. */
double oracle_phi(enum fv_mech mech, double x);

typedef struct oracle_attention {
    enum fv_mech mech; /* FV_MECH_ANY: softmax */
    uint32_t heads, d, dv, keys;
    double scale, eps;
    bool causal, normalise;
    const float *q, *k, *v; /* rows of heads * d, heads * d and heads * dv, packed */
} oracle_attention;

/* Row `row` of the output in O(keys): heads * dv values. */
void oracle_attend(const oracle_attention *a, uint32_t row, double *out);

#endif
