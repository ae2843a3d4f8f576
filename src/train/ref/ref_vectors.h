/* ref_vectors.h: vector operations for the references of the gradients of softmax and foveated
 * attention. */
#ifndef FOVEA_SRC_REF_VECTORS_H
#define FOVEA_SRC_REF_VECTORS_H

#include <stddef.h>

static inline float fv_ref_dot(const float *a, const float *b, size_t n)
{
    float sum = 0.f;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Adds factor x to y. */
static inline void fv_ref_axpy(float *y, const float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

#endif
