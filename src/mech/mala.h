/* mala.h: magnitude-aware linear attention with phi(x) = ELU(x) + 1. */
#define FV_MAP fv_elu1
#include "magnitude.h"
