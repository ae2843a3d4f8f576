/* nala.h: norm-aware linear attention as in its official code: positive and negative parts are
 * separate blocks. */
#define FV_POLARISED 1
#include "norm_aware.h"

FV_FN fv_v fv_phi_size(int query, fv_v x, fv_row r)
{
    return fv_magnitude(query, x, r);
}

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    fv_polarise(out, x, fv_phi_size(query, x, r));
}

#ifdef FV_DERIVE
#define FV_SUMS 2 /* for a query: u^p df and u^p ln(u) df with u = |q/n| */

FV_FN fv_v fv_sum_term(int i, int query, fv_v x, const fv_v df[2], fv_row r)
{
    const fv_v u = fv_abs(fv_mul(x, r.stat[0]));
    const fv_v term = fv_mul(fv_magnitude(query, x, r), fv_polarised_size(x, df[0], df[1]));
    return i == 0 ? term : fv_mul(term, fv_log_size(u));
}

/* Returns the features depend on q directly, and through n on u = |q| / n and on p(n). */
FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[2], fv_row r, const fv_v sum[2])
{
    const fv_v own = fv_mul(fv_magnitude_slope(query, x, r), fv_polarised(x, df[0], df[1]));
    if (!query)
        return own;
    const fv_v dn =
        fv_fma(fv_power_slope(r), sum[1], fv_neg(fv_mul(fv_mul(r.stat[1], sum[0]), r.stat[0])));
    return fv_mul(r.stat[0], fv_fma(dn, x, own));
}
#endif
