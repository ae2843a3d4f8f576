/* oracle_grad.h: gradients of attention in double precision, from the mechanisms' headers over
 * doubles, a row at a time; and the forward formulas that test_gradients.c differentiates
 * numerically.
 *
 * What the headers say is shared with the kernels; that it is right is seen by finite differences
 * of forward results, which are compared with oracle.c, which shares nothing.
 */
#ifndef FOVEA_TESTS_ORACLE_GRAD_H
#define FOVEA_TESTS_ORACLE_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/mech_traits.h"

/* Linear attention of one mechanism. States are those of mech_traits.h, in doubles. */
typedef struct oracle_lattn {
    uint32_t heads, d, dv;
    double scale, eps, alpha, mean; /* f of LATTN_APPLY; f[0] of LATTN_REDUCE */
    bool plain;
    const double *param; /* as learned, heads * d each */
} oracle_lattn;

/* One token: x of q or of k, and of v; rows of all heads. cos, sin: d angles, or NULL. gate: heads,
 * or NULL. */
typedef struct oracle_token {
    const double *x, *v, *cos, *sin, *gate;
    const double *out; /* apply_grad: the result of the forward step; NULL: it is computed */
} oracle_token;

/* The functions of a mechanism, by FV_MECH_*. */
typedef struct oracle_mech {
    /* out: heads * dv. */
    void (*apply)(const oracle_lattn *a, const double *state, const oracle_token *t, double *out);
    /* dout: heads * dv. Gives dx, heads * d; adds to dstate; gate: heads, each times its gradient.
     * Outputs that are NULL are not computed. */
    void (*apply_grad)(const oracle_lattn *a, const double *state, const oracle_token *t,
                       const double *dout, double *dx, double *dstate, double *gate);
    /* Adds a key to m, w and S of a state that has its vmean and shift. */
    void (*reduce)(const oracle_lattn *a, double *state, const oracle_token *t);
    void (*reduce_grad)(const oracle_lattn *a, const double *state, const double *dstate,
                        const oracle_token *t, double *dx, double *dv, double *gate);
    /* Adds what a row adds to the gradient of the learned vectors. */
    void (*param_grad)(const oracle_lattn *a, const double *x, const double *dx, double *out);
} oracle_mech;

extern const oracle_mech *const oracle_mechs[FV_MECH_COUNT];

/* Softmax attention of one head, rows of d and dv packed; any of the results may be NULL. */
typedef struct oracle_softmax {
    uint32_t rows, d, dv;
    double scale;
    const double *q, *k, *v, *dout;
    const double *out; /* the result of the forward step; NULL: it is computed */
} oracle_softmax;
void oracle_softmax_forward(const oracle_softmax *a, double *out);
void oracle_softmax_grad(const oracle_softmax *a, double *dq, double *dk, double *dv);

#endif
