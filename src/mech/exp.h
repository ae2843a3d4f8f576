/* exp.h: linear attention with phi(x) = e^x. Subtracting a number per channel from k and adding it
 * to q does not change the products, and a factor per row of q does not change o / z. The maximum
 * can therefore be subtracted to avoid overflow. Without normalisation no such shift is possible,
 * and phi saturates at e^88. */
#define FV_WANTS FV_WANT_SHIFT
#define FV_STATS 1
#define FV_STAT_MAX 1

FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    (void)i, (void)query;
    return fv_sub(x, r.shift);
}

FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    (void)query;
    return r;
}

FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query;
    out[0] = fv_exp_saturated(fv_sub(fv_sub(x, r.shift), r.stat[0]));
}

#ifdef FV_DERIVE
/* Returns the result does not depend on shift and maximum, so they have no gradient. */
FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[1], fv_row r, const fv_v sum[2])
{
    (void)query, (void)sum;
    return fv_mul(df[0], fv_exp_saturated_slope(fv_sub(fv_sub(x, r.shift), r.stat[0])));
}
#endif

#include "linear.h"
