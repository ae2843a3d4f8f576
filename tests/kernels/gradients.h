/* gradients.h: the functions that training differentiates, and their derivatives, by their
 * equations in double precision. Checks of kernels use them as oracle; test_gradients.c compares
 * them with finite differences. */
#ifndef FOVEA_TESTS_GRADIENTS_H
#define FOVEA_TESTS_GRADIENTS_H

#include <stdint.h>

/* Normalises a row of n values. */
void grad_norm(double *y, const double *x, const double *weight, const double *bias, uint32_t n,
               double eps);
/* Computes dx from dy, and `unit` = (x - mean) / sigma. Returns 1 / sigma. */
double grad_norm_back(double *dx, double *unit, const double *x, const double *weight,
                      const double *dy, uint32_t n, double eps);

/* Returns -log softmax(z)[class]; dz may be NULL. */
double grad_entropy(double *dz, const double *z, uint32_t n, uint32_t class);

/* Cross-entropy of a mask's pixels, with the logits of a grid enlarged bilinearly. */
typedef struct grad_mask {
    uint32_t across, down, classes; /* tokens */
    uint32_t width, height;         /* pixels */
    const uint8_t *pixel;
    uint32_t ld; /* distance between rows in pixels */
} grad_mask;
/* Computes loss[token] and dz[token * classes + c] of all tokens with weight 1. Either may be NULL.
 */
void grad_segment(const grad_mask *m, const double *z, double *loss, double *dz);

#endif
