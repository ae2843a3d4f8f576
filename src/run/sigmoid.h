/* sigmoid.h: the sigmoid, which makes probabilities of logits. */
#ifndef FOVEA_SRC_RUN_SIGMOID_H
#define FOVEA_SRC_RUN_SIGMOID_H

#include <math.h>

/* For scores, which are sorted: rounded to a float, the result is the same on every machine. */
static inline double fv_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Of every pixel. */
static inline float fv_sigmoidf(float x)
{
    return 1 / (1 + expf(-x));
}

#endif
