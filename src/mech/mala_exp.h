/* mala_exp.h: magnitude-aware linear attention with phi(x) = e^x. */
#define FV_MAP fv_exp_saturated
#include "magnitude.h"
