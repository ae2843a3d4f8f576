/* check_grad.h: how wrong a gradient may be. It is computed in double precision from the case's
 * values and again from values that are off in their last digits; a kernel may be wrong by a
 * multiple of the difference. */
#ifndef FOVEA_TESTS_CHECK_GRAD_H
#define FOVEA_TESTS_CHECK_GRAD_H

#include "tests/kernels/check.h"

/* The case's operands in doubles, rows packed, NULL where absent. */
typedef struct check_doubles {
    double *of[FV_OPERANDS];
} check_doubles;

void check_doubles_of(check_doubles *in, const check_case *c);
void check_doubles_free(check_doubles *in);

/* Writes the whole output, rows packed. */
typedef void check_gradient_fn(const check_case *c, const check_doubles *in, double *out);

/* For `define`: of sums of `terms` terms. Columns [segment[i], segment[i + 1]) of a row are judged
 * together; the list ends with the number of columns. */
void check_gradient(check_case *c, check_gradient_fn *fn, double terms, const uint32_t *segment);
/* The same for softmax attentions, each head's queries, keys and values judged by themselves. */
void check_gradient_heads(check_case *c, check_gradient_fn *fn);
/* `oracle` and `release` of such ops. */
void check_gradient_row(const check_case *c, uint32_t row, double *want, double *allowed);
void check_gradient_release(check_case *c);

#endif
