/* scalar.h: the part of the vector vocabulary that mechanism headers use, on one float, for their
 * definitions in src/ref/. */
#ifndef FOVEA_SRC_MECH_SCALAR_H
#define FOVEA_SRC_MECH_SCALAR_H

#include <math.h>

#define FV_FN static inline
typedef float fv_v;

FV_FN fv_v fv_set(float s)
{
    return s;
}

FV_FN fv_v fv_add(fv_v a, fv_v b)
{
    return a + b;
}

FV_FN fv_v fv_div(fv_v a, fv_v b)
{
    return a / b;
}

FV_FN fv_v fv_min(fv_v a, fv_v b)
{
    return a < b ? a : b;
}

FV_FN fv_v fv_max(fv_v a, fv_v b)
{
    return a > b ? a : b;
}

FV_FN fv_v fv_exp(fv_v x)
{
    return expf(x);
}

#endif
