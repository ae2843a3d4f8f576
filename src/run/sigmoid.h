/* sigmoid.h: the sigmoid, which converts logits to probabilities. */
#ifndef FOVEA_SRC_RUN_SIGMOID_H
#define FOVEA_SRC_RUN_SIGMOID_H

#include <math.h>

/* Returns the sigmoid for scores, which are sorted. Rounded to a float, the result is the same on
 * every machine. */
static inline double fv_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Returns the sigmoid for single pixels, in float. */
static inline float fv_sigmoidf(float x)
{
    return 1 / (1 + expf(-x));
}

#endif
