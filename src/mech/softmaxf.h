/* softmaxf.h: linear attention with phi(x) = softmax of the channels of a row. */
#define FV_STATS 2 /* the maximum; the sum of e^(x - maximum), then its inverse */
#define FV_STATS_KEY 2
#define FV_STAT_MAX 1

FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    (void)query;
    return i == 0 ? x : fv_exp_neg(fv_sub(x, r.stat[0]));
}

FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    (void)query;
    r.stat[1] = fv_div(fv_set(1.f), r.stat[1]);
    return r;
}

FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query;
    out[0] = fv_mul(fv_exp_neg(fv_sub(x, r.stat[0])), r.stat[1]);
}

#ifdef FV_DERIVE
#include "phi_sum.h"

FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[1], fv_row r, const fv_v sum[2])
{
    fv_v f[1];
    fv_phi(f, query, x, r);
    return fv_mul(f[0], fv_sub(df[0], sum[0]));
}
#endif

#include "linear.h"
