/* nala_paper.h: norm-aware linear attention as in its paper: the blocks are the cosine and sine of
 * the direction. (arXiv 2506.21137) */
#define FV_STATS_KEY 2
#include "norm_aware.h"

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    const fv_v size = fv_magnitude(query, x, r);
    const fv_v angle = fv_mul(fv_set(0.785398163f), fv_tanh(fv_mul(x, r.stat[0])));
    out[0] = fv_mul(size, fv_cos_small(angle));
    out[1] = fv_mul(size, fv_sin_small(angle));
}

#ifdef FV_DERIVE
#define FV_SUMS 2 /* t dt with t = x/n; for a query also ln|t| dp */
#define FV_SUMS_KEY 1

/* Derivatives of the features with respect to their size, and with respect to t through the angle.
 */
typedef struct fv_polar {
    fv_v size, t;
} fv_polar;

FV_FN fv_polar fv_polar_grad(fv_v x, const fv_v df[2], fv_row r, fv_v size)
{
    const fv_v quarter = fv_set(0.785398163f), t = fv_tanh(fv_mul(x, r.stat[0]));
    const fv_v angle = fv_mul(quarter, t), c = fv_cos_small(angle), s = fv_sin_small(angle);
    const fv_v by_angle = fv_mul(size, fv_sub(fv_mul(c, df[1]), fv_mul(s, df[0])));
    return (fv_polar){fv_fma(c, df[0], fv_mul(s, df[1])),
                      fv_mul(fv_mul(quarter, by_angle), fv_sub(fv_set(1.f), fv_mul(t, t)))};
}

/* Returns dt. The size of a query's features depends on |t| too. */
FV_FN fv_v fv_direction_grad(int query, fv_v x, fv_polar d, fv_row r)
{
    const fv_v slope = fv_mul(fv_magnitude_slope(query, x, r), d.size);
    return query ? fv_add(d.t, fv_polarised(x, slope, slope)) : d.t;
}

FV_FN fv_v fv_sum_term(int i, int query, fv_v x, const fv_v df[2], fv_row r)
{
    const fv_v t = fv_mul(x, r.stat[0]), size = fv_magnitude(query, x, r);
    const fv_polar d = fv_polar_grad(x, df, r, size);
    return i == 0 ? fv_mul(t, fv_direction_grad(query, x, d, r))
                  : fv_mul(fv_mul(size, d.size), fv_log_size(fv_abs(t)));
}

FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[2], fv_row r, const fv_v sum[2])
{
    const fv_v t = fv_mul(x, r.stat[0]);
    const fv_polar d = fv_polar_grad(x, df, r, fv_magnitude(query, x, r));
    const fv_v dn = fv_mul(sum[0], r.stat[0]);
    const fv_v by_direction = fv_mul(r.stat[0], fv_direction_grad(query, x, d, r));
    if (query)
        return fv_fma(t, fv_sub(fv_mul(fv_power_slope(r), sum[1]), dn), by_direction);
    const fv_v own = fv_mul(fv_magnitude_slope(0, x, r), d.size);
    return fv_add(fv_polarised(x, own, own), fv_sub(by_direction, fv_mul(t, dn)));
}
#endif
