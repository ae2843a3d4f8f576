/* pola.h: polarity-aware linear attention: positive and negative parts as blocks of their own, with
 * learned powers; the second half of the values sees them crossed. (arXiv 2501.15061) */
#define FV_BLOCKS 2
#define FV_STREAMS 2
#define FV_PARAMS 2 /* 1 / softplus(channel scale), 1 + alpha sigmoid(power) */

FV_FN fv_v fv_param(int i, fv_v raw, fv_v alpha)
{
    const fv_v one = fv_set(1.f);
    return i == 0 ? fv_div(one, fv_softplus(raw)) : fv_fma(alpha, fv_sigmoid(raw), one);
}

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    (void)query;
    fv_polarise(out, x, fv_pow(fv_abs(fv_mul(x, r.param[0])), r.param[1]));
}

#include "linear.h"
