/* magnitude.h: MALA's normalisation, out = (1 + 1/(z + eps)) (o + w vmean) - z vmean. o is computed
 * from centred values, so the two terms in vmean, which are nearly equal, are subtracted before
 * they are multiplied by it. The header that includes this defines FV_MAP. (arXiv 2507.00698,
 * official code) */
#define FV_WANTS FV_WANT_CENTRED

#include "mapped.h"

FV_FN fv_v fv_norm(fv_v z, fv_v eps)
{
    return fv_add(fv_set(1.f), fv_div(fv_set(1.f), fv_add(z, eps)));
}

FV_FN fv_v fv_norm_mean(fv_v z, fv_v w, fv_v eps)
{
    return fv_add(fv_sub(w, z), fv_div(w, fv_add(z, eps)));
}

#ifdef FV_DERIVE
FV_FN fv_v fv_norm_slope(fv_v z, fv_v eps)
{
    const fv_v y = fv_add(z, eps);
    return fv_neg(fv_div(fv_set(1.f), fv_mul(y, fv_add(y, fv_set(1.f)))));
}

FV_FN fv_v fv_norm_mean_slope_z(fv_v z, fv_v w, fv_v eps)
{
    const fv_v y = fv_add(z, eps);
    return fv_sub(fv_set(-1.f), fv_div(fv_div(w, y), y));
}

FV_FN fv_v fv_norm_mean_slope_w(fv_v z, fv_v eps)
{
    return fv_norm(z, eps);
}
#endif
