/* linear.h: linear attention, out = o / (z + eps), for the headers of its feature maps. A header
 * that defines FV_MAP, the map of one channel, needs nothing else. */
#ifdef FV_MAP
#include "mapped.h"
#endif

FV_FN fv_v fv_norm(fv_v z, fv_v eps)
{
    return fv_div(fv_set(1.f), fv_add(z, eps));
}

#ifdef FV_DERIVE
FV_FN fv_v fv_norm_slope(fv_v z, fv_v eps)
{
    return fv_neg(fv_norm(z, eps));
}
#endif
