/* gradients.h: what training differentiates, and the derivatives, by their equations in double
 * precision: the oracle of the checks, which test_gradients.c compares with finite differences. */
#ifndef FOVEA_TESTS_GRADIENTS_H
#define FOVEA_TESTS_GRADIENTS_H

#include <stdint.h>

/* Layer normalisation of a row of n. */
void grad_norm(double *y, const double *x, const double *weight, const double *bias, uint32_t n,
               double eps);
/* From the gradient of y that of x; `unit`: (x - mean) / sigma; returns 1 / sigma. */
double grad_norm_back(double *dx, double *unit, const double *x, const double *weight,
                      const double *dy, uint32_t n, double eps);

/* -log softmax(z)[class]; dz may be NULL. */
double grad_entropy(double *dz, const double *z, uint32_t n, uint32_t class);

/* Cross-entropy of a mask's pixels, by logits of a grid that are enlarged bilinearly. */
typedef struct grad_mask {
    uint32_t across, down, classes; /* tokens */
    uint32_t width, height;         /* pixels */
    const uint8_t *pixel;
    uint32_t ld; /* pixels from row to row */
} grad_mask;
/* loss[token] and dz[token * classes + c] of all tokens, with weight 1; either may be NULL. */
void grad_segment(const grad_mask *m, const double *z, double *loss, double *dz);

#endif
