/* focused.h: focused linear attention: y = (relu(x) + 1e-6) / softplus(channel scale), phi(x) = y^3
 * |y| / |y^3|, which turns y towards its largest channels and leaves its norm. Norms run over the
 * channels of all heads, as the official code of FLatten takes them, before heads are split; the
 * largest channel is taken out first, because sixth powers soon are no numbers. (arXiv 2308.00442)
 */
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

FV_FN fv_row fv_stats_done(int query, fv_row r, fv_v alpha)
{
    (void)query, (void)alpha;
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

#include "linear.h"
