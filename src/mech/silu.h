/* silu.h: linear attention with phi(x) = x sigmoid(x), not normalised. */
#define FV_WANTS FV_WANT_SIGNED
#define FV_MAP fv_silu
#include "linear.h"
