/* pola.h: polarity-aware linear attention: positive and negative parts are separate blocks, with
 * learned powers; for the second half of the values the blocks of q are swapped. (arXiv
 * 2501.15061) */
#define FV_BLOCKS 2
#define FV_ALPHA 4.f
#define FV_STREAMS 2
#define FV_POLARISED 1
#define FV_MODULE (FV_MODULE_DWC | FV_MODULE_GATE)
#define FV_PARAMS 2 /* 1 / softplus(channel scale), 1 + alpha sigmoid(power) */

FV_FN fv_v fv_param(int i, fv_v raw, fv_v alpha)
{
    const fv_v one = fv_set(1.f);
    return i == 0 ? fv_div(one, fv_softplus(raw)) : fv_fma(alpha, fv_sigmoid(raw), one);
}

FV_FN fv_v fv_phi_size(int query, fv_v x, fv_row r)
{
    (void)query;
    return fv_pow(fv_abs(fv_mul(x, r.param[0])), r.param[1]);
}

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    fv_polarise(out, x, fv_phi_size(query, x, r));
}

#ifdef FV_DERIVE
FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[2], fv_row r, const fv_v sum[2])
{
    (void)query, (void)sum;
    const fv_v y = fv_max(fv_set(0x1p-126f), fv_abs(fv_mul(x, r.param[0])));
    const fv_v slope = fv_mul(r.param[1], fv_pow(y, fv_sub(r.param[1], fv_set(1.f))));
    return fv_mul(fv_mul(slope, r.param[0]), fv_polarised(x, df[0], df[1]));
}

/* x dx = p y^p df. The gradients of the learned vectors follow from this equation. */
FV_FN fv_v fv_param_term(int i, fv_v x, fv_v dx, fv_row r)
{
    const fv_v part = fv_div(fv_mul(x, dx), r.param[i]);
    return i == 0 ? part : fv_mul(part, fv_log_size(fv_abs(fv_mul(x, r.param[0]))));
}

FV_FN fv_v fv_param_slope(int i, fv_v raw, fv_v alpha)
{
    const fv_v s = fv_sigmoid(raw), param = fv_param(0, raw, alpha);
    return i == 0 ? fv_neg(fv_mul(s, fv_mul(param, param)))
                  : fv_mul(alpha, fv_mul(s, fv_sub(fv_set(1.f), s)));
}
#endif

#include "linear.h"
