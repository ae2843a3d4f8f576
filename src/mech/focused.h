/* focused.h: focused linear attention: y = (relu(x) + 1e-6) / softplus(channel scale), phi(x) = y^3
 * |y| / |y^3|, which turns y towards its largest channels and keeps its norm. Norms are taken over
 * the channels of all heads, as in the official code of FLatten, which computes them before it
 * splits heads. Rows are divided by their largest channel first, because sixth powers overflow
 * early. (arXiv 2308.00442) */
#define FV_MODULE FV_MODULE_DWC
#define FV_PARAMS 1 /* 1 / softplus(channel scale) */
#define FV_STATS 3  /* M = max y, then its inverse; sum (y/M)^2; sum (y/M)^6, then root of both */
#define FV_STATS_KEY 3
#define FV_STAT_MAX 1
#define FV_STAT_WIDE 1

FV_FN fv_v fv_param(int i, fv_v raw, fv_v alpha)
{
    (void)i, (void)alpha;
    return fv_div(fv_set(1.f), fv_softplus(raw));
}

FV_FN fv_v fv_focus_input(fv_v x, fv_row r)
{
    return fv_mul(fv_add(fv_relu(x), fv_set(1e-6f)), r.param[0]);
}

FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    (void)query;
    const fv_v y = fv_focus_input(x, r);
    if (i == 0)
        return y;
    const fv_v part = fv_div(y, r.stat[0]), square = fv_mul(part, part);
    return i == 1 ? square : fv_mul(square, fv_mul(square, square));
}

FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    (void)query;
    r.stat[2] = fv_sqrt(fv_div(r.stat[1], r.stat[2]));
    r.stat[0] = fv_div(fv_set(1.f), r.stat[0]);
    return r;
}

FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query;
    const fv_v y = fv_focus_input(x, r), part = fv_mul(y, r.stat[0]);
    out[0] = fv_mul(fv_mul(y, r.stat[2]), fv_mul(part, part));
}

#ifdef FV_DERIVE
#include "phi_sum.h"

/* dy = 3 phi/y df + (y/|y|^2 - 3 y^5/|y^3|^2) phi.df, divided by M. */
FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[1], fv_row r, const fv_v sum[2])
{
    (void)query;
    const fv_v part = fv_mul(fv_focus_input(x, r), r.stat[0]), square = fv_mul(part, part);
    const fv_v three = fv_set(3.f), fifth = fv_mul(part, fv_mul(square, square));
    const fv_v own = fv_mul(fv_mul(three, square), fv_mul(r.stat[2], df[0]));
    const fv_v norms = fv_sub(part, fv_mul(three, fv_mul(fifth, fv_mul(r.stat[2], r.stat[2]))));
    const fv_v whole = fv_div(fv_mul(sum[0], r.stat[0]), r.stat[1]);
    return fv_sel_lt0(fv_neg(x), fv_mul(r.param[0], fv_fma(whole, norms, own)), fv_set(0.f));
}

/* The term for x > 0. For other channels, the 1e-6 contributes only 1e-12 of the gradient, which is
 * ignored. */
FV_FN fv_v fv_param_term(int i, fv_v x, fv_v dx, fv_row r)
{
    (void)i;
    return fv_div(fv_mul(fv_add(fv_relu(x), fv_set(1e-6f)), dx), r.param[0]);
}

FV_FN fv_v fv_param_slope(int i, fv_v raw, fv_v alpha)
{
    const fv_v param = fv_param(i, raw, alpha);
    return fv_neg(fv_mul(fv_sigmoid(raw), fv_mul(param, param)));
}
#endif

#include "linear.h"
