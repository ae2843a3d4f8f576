/* identity.h: linear attention with phi(x) = x, not normalised. */
#define FV_WANTS FV_WANT_SIGNED
#define FV_MAP fv_identity
#include "linear.h"
