/* oracle_grad.h: gradients of attention in double precision, one row at a time, from the
 * mechanisms' headers compiled for doubles; and the forward formulas that test_gradients.c
 * differentiates numerically.
 *
 * Kernels share these headers. To show that the headers are correct, test_gradients.c compares the
 * gradients with finite differences of forward results, and the forward results with oracle.c,
 * which shares no code.
 */
#ifndef FOVEA_TESTS_ORACLE_GRAD_H
#define FOVEA_TESTS_ORACLE_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/mech_traits.h"

/* Linear attention of one mechanism. States have the layout of mech_traits.h, in doubles. */
typedef struct oracle_lattn {
    uint32_t heads, d, dv;
    double scale, eps, alpha, mean; /* f of LATTN_APPLY; f[0] of LATTN_REDUCE */
    bool plain;
    const double *param; /* learned vectors, heads * d each */
} oracle_lattn;

/* One token with all heads: x is a row of q or k, and v a row of values. cos, sin: d values each,
 * or NULL. gate: one per head, or NULL. */
typedef struct oracle_token {
    const double *x, *v, *cos, *sin, *gate;
    const double *out; /* apply_grad: the forward step's result, or NULL to compute it */
} oracle_token;

/* The functions of a mechanism, by FV_MECH_*. */
typedef struct oracle_mech {
    /* Computes `out`: heads * dv values. */
    void (*apply)(const oracle_lattn *a, const double *state, const oracle_token *t, double *out);
    /* Computes dx (heads * d) from dout (heads * dv) and adds to dstate. gate receives each head's
     * gate times its gradient. Outputs that are NULL are not computed. */
    void (*apply_grad)(const oracle_lattn *a, const double *state, const oracle_token *t,
                       const double *dout, double *dx, double *dstate, double *gate);
    /* Adds a key to m, w and S of a state whose vmean and shift are final. */
    void (*reduce)(const oracle_lattn *a, double *state, const oracle_token *t);
    void (*reduce_grad)(const oracle_lattn *a, const double *state, const double *dstate,
                        const oracle_token *t, double *dx, double *dv, double *gate);
    /* Adds the contribution of a row to the gradient of the learned vectors. */
    void (*param_grad)(const oracle_lattn *a, const double *x, const double *dx, double *out);
} oracle_mech;

extern const oracle_mech *const oracle_mechs[FV_MECH_COUNT];

/* Softmax attention of one head with packed rows of d and dv. Any result may be NULL. */
typedef struct oracle_softmax {
    uint32_t rows, d, dv;
    double scale;
    const double *q, *k, *v, *dout;
    const double *out; /* the forward step's result, or NULL to compute it */
} oracle_softmax;
void oracle_softmax_forward(const oracle_softmax *a, double *out);
void oracle_softmax_grad(const oracle_softmax *a, double *dq, double *dk, double *dv);

#endif
