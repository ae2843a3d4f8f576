/* hedgehog.h: linear attention with phi(x) = softmax of [x, -x] over the 2 d channels of a row. The
 * d x d map that Hedgehog learns for each head is applied before phi, as a product with the rows of
 * q and k. (arXiv 2402.04347) */
#define FV_BLOCKS 2
#define FV_STATS 2 /* max |x|; the sum of e^(x - max) + e^(-x - max), then its inverse */
#define FV_STATS_KEY 2
#define FV_STAT_MAX 1

FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    (void)query;
    const fv_v size = fv_abs(x);
    return i == 0 ? size
                  : fv_add(fv_exp_neg(fv_sub(size, r.stat[0])),
                           fv_exp_neg(fv_neg(fv_add(size, r.stat[0]))));
}

FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    (void)query;
    r.stat[1] = fv_div(fv_set(1.f), r.stat[1]);
    return r;
}

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    (void)query;
    out[0] = fv_mul(fv_exp_neg(fv_sub(x, r.stat[0])), r.stat[1]);
    out[1] = fv_mul(fv_exp_neg(fv_neg(fv_add(x, r.stat[0]))), r.stat[1]);
}

#ifdef FV_DERIVE
#define FV_SUMS 1 /* phi.df of both blocks */
#define FV_SUMS_KEY 1

FV_FN fv_v fv_sum_term(int i, int query, fv_v x, const fv_v df[2], fv_row r)
{
    fv_v f[2];
    (void)i;
    fv_phi(f, query, x, r);
    return fv_fma(f[0], df[0], fv_mul(f[1], df[1]));
}

FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[2], fv_row r, const fv_v sum[2])
{
    fv_v f[2];
    fv_phi(f, query, x, r);
    return fv_sub(fv_mul(f[0], fv_sub(df[0], sum[0])), fv_mul(f[1], fv_sub(df[1], sum[0])));
}
#endif

#include "linear.h"
