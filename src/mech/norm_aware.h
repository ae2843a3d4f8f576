/* norm_aware.h: the parts that both variants of NaLa share: the query's norm n and power p = lambda
 * (1/2 + tanh n), and the keys' power lambda. lambda is the operation's constant, 3 in the official
 * code. Channels are divided by the largest first, because squares of tiny channels underflow and
 * those of huge ones overflow. */
#define FV_BLOCKS 2
#define FV_ALPHA 3.f /* lambda */
#define FV_MODULE (FV_MODULE_DWC | FV_MODULE_GATE | FV_MODULE_GLA)
#define FV_STATS 2 /* max |x|, then 1/n; sum (x / max |x|)^2, then p */
#define FV_STAT_MAX 1

FV_FN fv_v fv_inverse(fv_v max)
{
    const fv_v least = fv_set(0x1p-126f);
    return fv_div(fv_set(1.f), fv_sel_lt(max, least, least, max));
}

FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    (void)query;
    const fv_v part = fv_mul(x, fv_inverse(r.stat[0]));
    return i == 0 ? fv_abs(x) : fv_mul(part, part);
}

FV_FN float fv_lambda(fv_row r)
{
    return r.alpha > 0.f ? r.alpha : FV_ALPHA;
}

/* For a row of zeros or denormals, 1/n is set to 0, so that its features are 0. */
FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    (void)query;
    const fv_v root = fv_sqrt(r.stat[1]), n = fv_mul(r.stat[0], root);
    const fv_v inverse = fv_mul(fv_inverse(r.stat[0]), fv_div(fv_set(1.f), root));
    r.stat[0] = fv_sel_lt(r.stat[0], fv_set(0x1p-126f), fv_set(0.f), inverse);
    const float lambda = fv_lambda(r);
    r.stat[1] = fv_fma(fv_set(lambda), fv_tanh(n), fv_set(0.5f * lambda));
    return r;
}

/* Returns |q/n|^p or |k|^lambda. */
FV_FN fv_v fv_magnitude(int query, fv_v x, fv_row r)
{
    if (query)
        return fv_pow(fv_abs(fv_mul(x, r.stat[0])), r.stat[1]);
    const float lambda = fv_lambda(r);
    if (lambda < 3.f || lambda > 3.f)
        return fv_pow(fv_abs(x), fv_set(lambda));
    return fv_mul(fv_abs(x), fv_mul(x, x)); /* x^3 without pow, which would cost more than
                                               everything else */
}

#ifdef FV_DERIVE
/* Returns dp/dn of the query's power, computed from p: lambda (1 - tanh^2 n). */
FV_FN fv_v fv_power_slope(fv_row r)
{
    const float lambda = fv_lambda(r);
    const fv_v t = fv_sub(r.stat[1], fv_set(0.5f * lambda));
    return fv_sub(fv_set(lambda), fv_div(fv_mul(t, t), fv_set(lambda)));
}

/* Returns the derivative of fv_magnitude with respect to |q/n| or |k|. */
FV_FN fv_v fv_magnitude_slope(int query, fv_v x, fv_row r)
{
    const float lambda = fv_lambda(r);
    const fv_v u = fv_max(fv_set(0x1p-126f), fv_abs(query ? fv_mul(x, r.stat[0]) : x));
    const fv_v p = query ? r.stat[1] : fv_set(lambda);
    return fv_mul(p, fv_pow(u, fv_sub(p, fv_set(1.f))));
}
#endif

#include "linear.h"
