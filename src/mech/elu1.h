/* elu1.h: linear attention with phi(x) = ELU(x) + 1. */
#define FV_MAP fv_elu1
#include "linear.h"
