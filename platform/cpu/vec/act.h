/* act.h: activations (FV_EPI_* of op.h) and their derivatives, in vec.h's vector functions. `act`
 * should be a constant where these are inlined. */
#ifndef FOVEA_PLATFORM_VEC_ACT_H
#define FOVEA_PLATFORM_VEC_ACT_H

#include "ops/kernel.h"
#include "platform/cpu/vec/math.h"

FV_FN fv_v fv_activate(fv_v x, uint32_t act)
{
    const fv_v half = fv_set(0.5f), one = fv_set(1.f);
    switch (act) {
    case FV_EPI_GELU:
        return fv_mul(fv_mul(half, x), fv_add(one, fv_erf(fv_mul(x, fv_set(0.707106781f)))));
    case FV_EPI_GELU_TANH: {
        const fv_v cubic = fv_fma(fv_mul(fv_mul(x, x), x), fv_set(0.044715f), x);
        return fv_mul(fv_mul(half, x), fv_add(one, fv_tanh(fv_mul(cubic, fv_set(0.797884561f)))));
    }
    case FV_EPI_GELU_QUICK:
        return fv_mul(x, fv_sigmoid(fv_mul(x, fv_set(1.702f))));
    case FV_EPI_SILU:
        return fv_mul(x, fv_sigmoid(x));
    case FV_EPI_TANH:
        return fv_tanh(x);
    case FV_EPI_RELU:
        return fv_max(fv_set(0.f), x);
    case FV_EPI_SIGMOID:
        return fv_sigmoid(x);
    case FV_EPI_SOFTPLUS:
        return fv_softplus(x);
    default:
        return x;
    }
}

/* Returns an activation among FV_EPI_ROUGH, with an error of at most FV_ROUGH_ERROR. */
FV_FN fv_v fv_activate_roughly(fv_v x, uint32_t act)
{
    static const float gelu[9] = {0.160404414f,     -0.00812110957f,  0.000589641335f,
                                  -4.41974735e-05f, 3.05237245e-06f,  -1.87995468e-07f,
                                  1.33603066e-08f,  -9.89883286e-10f, 3.5694326e-11f};
    static const float tanh_form[9] = {0.165979892f,    -0.00895567145f,  0.000683914928f,
                                       -5.2968182e-05f, 3.72984118e-06f,  -2.32268249e-07f,
                                       1.70715797e-08f, -1.37070166e-09f, 5.37471283e-11f};
    return act == FV_EPI_GELU ? fv_gelu_rough(x, gelu, 4.4f, 9.68f)
                              : fv_gelu_rough(x, tanh_form, 4.25f, 9.03125f);
}

/* Returns derivative of x sigmoid(s x). */
FV_FN fv_v fv_gated_slope(fv_v x, float s)
{
    const fv_v one = fv_set(1.f), gate = fv_sigmoid(fv_mul(x, fv_set(s)));
    return fv_mul(gate, fv_fma(fv_mul(x, fv_set(s)), fv_sub(one, gate), one));
}

/* Returns derivative of an activation. x is clamped at |x| = 12, where every derivative has reached
 * its limit, so that squares cannot overflow. */
FV_FN fv_v fv_activate_slope(fv_v x, uint32_t act)
{
    const fv_v half = fv_set(0.5f), one = fv_set(1.f), lim = fv_set(12.f);
    const fv_v t = fv_min(lim, fv_max(fv_neg(lim), x)), s = fv_mul(t, t);
    switch (act) {
    case FV_EPI_GELU: {
        const fv_v bell = fv_mul(fv_exp_neg(fv_mul(s, fv_set(-0.5f))), fv_set(0.398942280f));
        const fv_v below = fv_add(one, fv_erf(fv_mul(t, fv_set(0.707106781f))));
        return fv_fma(t, bell, fv_mul(half, below));
    }
    case FV_EPI_GELU_TANH: {
        const fv_v cubic = fv_fma(fv_mul(s, t), fv_set(0.044715f), t);
        const fv_v bend = fv_tanh(fv_mul(cubic, fv_set(0.797884561f)));
        const fv_v steep = fv_fma(s, fv_set(0.107032263f), fv_set(0.797884561f));
        const fv_v along = fv_mul(fv_mul(half, t), fv_fma(fv_neg(bend), bend, one));
        return fv_fma(along, steep, fv_fma(half, bend, half));
    }
    case FV_EPI_GELU_QUICK:
        return fv_gated_slope(x, 1.702f);
    case FV_EPI_SILU:
        return fv_gated_slope(x, 1.f);
    case FV_EPI_TANH: {
        const fv_v bend = fv_tanh(x);
        return fv_fma(fv_neg(bend), bend, one);
    }
    case FV_EPI_RELU:
        return fv_sel_lt(fv_set(0.f), x, one, fv_set(0.f));
    case FV_EPI_SIGMOID: {
        const fv_v gate = fv_sigmoid(x);
        return fv_mul(gate, fv_sub(one, gate));
    }
    case FV_EPI_SOFTPLUS:
        return fv_sigmoid(x);
    default:
        return one;
    }
}

#endif
