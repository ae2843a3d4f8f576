/* check_grad.h: bounds the errors of gradients.
 *
 * A gradient is computed in double precision from the case's values, and again from values that are
 * perturbed in their last digits. A kernel's error may be a multiple of the difference. */
#ifndef FOVEA_TESTS_CHECK_GRAD_H
#define FOVEA_TESTS_CHECK_GRAD_H

#include "tests/kernels/check.h"

/* The case's operands as doubles in packed rows; NULL for absent operands. */
typedef struct check_doubles {
    double *of[FV_OPERANDS];
} check_doubles;

void check_doubles_of(check_doubles *in, const check_case *c);
void check_doubles_free(check_doubles *in);

/* Computes the whole output as packed rows. */
typedef void check_gradient_fn(const check_case *c, const check_doubles *in, double *out);

/* Implements `define` for a gradient whose values are sums of `terms` terms. Columns [segment[i],
 * segment[i + 1]) of a row share an error bound; the list ends with the number of columns. */
void check_gradient(check_case *c, check_gradient_fn *fn, double terms, const uint32_t *segment);
/* As check_gradient(), for softmax attention: each head's queries, keys and values have separate
 * bounds. */
void check_gradient_heads(check_case *c, check_gradient_fn *fn);
/* Implement `oracle` and `release` of gradient ops. */
void check_gradient_row(const check_case *c, uint32_t row, double *want, double *allowed);
void check_gradient_release(check_case *c);

#endif
