/* relu.h: linear attention with phi(x) = max(x, 0). */
#define FV_MAP fv_relu
#include "linear.h"
