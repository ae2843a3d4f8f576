/* sigmoid.h: what makes probabilities of logits. */
#ifndef FOVEA_SRC_RUN_SIGMOID_H
#define FOVEA_SRC_RUN_SIGMOID_H

#include <math.h>

/* Of scores, which are put in order: the same on every machine, once it is rounded to a float. */
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
