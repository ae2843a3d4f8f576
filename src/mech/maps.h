/* maps.h: feature maps that see one channel at a time, for the headers of the mechanisms. */
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

/* e^x, where it would be infinite e^88. */
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

/* size, not negative, in the block of x's sign; the other block is 0. */
FV_FN void fv_polarise(fv_v out[2], fv_v x, fv_v size)
{
    out[0] = fv_sel_lt0(x, fv_set(0.f), size);
    out[1] = fv_sel_lt0(fv_neg(x), fv_set(0.f), size);
}

#endif
