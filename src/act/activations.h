/* activations.h: functions that the definitions in activations.inc use. */
#ifndef FOVEA_SRC_ACTIVATIONS_H
#define FOVEA_SRC_ACTIVATIONS_H

#include <math.h>

static inline double fv_act_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Returns the derivative of x sigmoid(s x). */
static inline double fv_act_gated_slope(double x, double s)
{
    const double gate = 1 / (1 + exp(-s * x));
    return gate * (1 + s * x * (1 - gate));
}

/* Return tanh(sqrt(2 / pi) (x + 0.044715 x^3)), which GELU_TANH contains, and the derivative of
 * GELU_TANH. */
static inline double fv_act_bend(double x)
{
    return tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
}

static inline double fv_act_bend_slope(double x)
{
    const double s = 0.79788456080286536, t = fv_act_bend(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s * (1 + 3 * 0.044715 * x * x);
}

#endif
