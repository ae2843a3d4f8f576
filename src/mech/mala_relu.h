/* mala_relu.h: magnitude-aware linear attention with phi(x) = max(x, 0). */
#define FV_MAP fv_relu
#include "magnitude.h"
