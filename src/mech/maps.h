/* maps.h: feature maps that depend on one channel only, for the headers of mechanisms. */
#ifndef FOVEA_SRC_MECH_MAPS_H
#define FOVEA_SRC_MECH_MAPS_H

/* ELU(x) + 1 */
FV_FN fv_v fv_elu1(fv_v x)
{
    return fv_add(fv_exp_neg(fv_min(fv_set(0.f), x)), fv_max(fv_set(0.f), x));
}

FV_FN fv_v fv_relu(fv_v x)
{
    return fv_max(fv_set(0.f), x);
}

/* e^min(x, 88), which is always finite. */
FV_FN fv_v fv_exp_saturated(fv_v x)
{
    return fv_exp(fv_min(fv_set(88.f), x));
}

FV_FN fv_v fv_silu(fv_v x)
{
    return fv_mul(x, fv_sigmoid(x));
}

FV_FN fv_v fv_identity(fv_v x)
{
    return x;
}

#ifdef FV_DERIVE
/* Returns the derivative of map fv_<name>: fv_<name>_slope. */
FV_FN fv_v fv_elu1_slope(fv_v x)
{
    return fv_exp_neg(fv_min(fv_set(0.f), x));
}

FV_FN fv_v fv_relu_slope(fv_v x)
{
    return fv_sel_lt0(fv_neg(x), fv_set(1.f), fv_set(0.f));
}

FV_FN fv_v fv_exp_saturated_slope(fv_v x)
{
    return fv_sel_lt(x, fv_set(88.f), fv_exp_saturated(x), fv_set(0.f));
}

FV_FN fv_v fv_softplus_slope(fv_v x)
{
    return fv_sigmoid(x);
}

FV_FN fv_v fv_silu_slope(fv_v x)
{
    const fv_v s = fv_sigmoid(x), one = fv_set(1.f);
    return fv_mul(s, fv_fma(x, fv_sub(one, s), one));
}

FV_FN fv_v fv_identity_slope(fv_v x)
{
    (void)x;
    return fv_set(1.f);
}

/* Returns d|x|/dx times the value of the block for x's sign: `positive` for x > 0, -`negative` for
 * x < 0, 0 for x = 0. */
FV_FN fv_v fv_polarised(fv_v x, fv_v positive, fv_v negative)
{
    const fv_v zero = fv_set(0.f);
    return fv_sel_lt0(x, fv_neg(negative), fv_sel_lt0(fv_neg(x), positive, zero));
}

/* Returns `positive` for x > 0, `negative` for x < 0, and 0 for x = 0. */
FV_FN fv_v fv_polarised_size(fv_v x, fv_v positive, fv_v negative)
{
    return fv_sel_lt0(x, negative, fv_sel_lt0(fv_neg(x), positive, fv_set(0.f)));
}

/* Returns ln max(x, FLT_MIN), which is finite for x = 0 too, where it is multiplied by a power of x
 * that is 0. */
FV_FN fv_v fv_log_size(fv_v x)
{
    return fv_log(fv_max(fv_set(0x1p-126f), x));
}
#endif

/* Stores size >= 0 in the block for x's sign, and 0 in the other block. */
FV_FN void fv_polarise(fv_v out[2], fv_v x, fv_v size)
{
    out[0] = fv_sel_lt0(x, fv_set(0.f), size);
    out[1] = fv_sel_lt0(fv_neg(x), fv_set(0.f), size);
}

#endif
