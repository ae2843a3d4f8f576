/* softplus.h: linear attention with phi(x) = log(1 + e^x). */
#define FV_MAP fv_softplus
#include "linear.h"
