/* math.h: elementary functions, written once in vec.h's vector functions.
 *
 * Errors are the worst over all floats, in units in the last place (ulp) of the result. NaN gives
 * NaN, and infinities give the function's limit; results below the normal range become zero. */
#ifndef FOVEA_PLATFORM_VEC_MATH_H
#define FOVEA_PLATFORM_VEC_MATH_H

#include "platform/cpu/vec/vec.h"

#include <math.h>

/* Returns e^r - 1 for |r| <= ln(2) / 2. */
FV_FN fv_v fv_expm1_core(fv_v r)
{
    fv_v p = fv_set(1.9875691500e-4f);
    p = fv_fma(p, r, fv_set(1.3981999507e-3f));
    p = fv_fma(p, r, fv_set(8.3334519073e-3f));
    p = fv_fma(p, r, fv_set(4.1665795894e-2f));
    p = fv_fma(p, r, fv_set(1.6666665459e-1f));
    p = fv_fma(p, r, fv_set(5.0000001201e-1f));
    return fv_fma(fv_mul(r, r), p, r);
}

/* Returns e^r for |r| <= ln(2) / 2. */
FV_FN fv_v fv_exp_core(fv_v r)
{
    return fv_add(fv_expm1_core(r), fv_set(1.f));
}

/* Splits x = n ln(2) + r; returns r. */
FV_FN fv_v fv_exp_reduce(fv_v *n, fv_v x)
{
    *n = fv_round(fv_mul(x, fv_set(1.44269504f)));
    fv_v r = fv_fma(*n, fv_set(-0.693359375f), x);
    return fv_fma(*n, fv_set(2.12194440e-4f), r);
}

/* Returns e^x for x in [-104, 89]. Without FV_LDEXP_ANY the result must be normal. */
FV_FN fv_v fv_exp_bounded(fv_v x)
{
    fv_v n, r = fv_exp_reduce(&n, x);
    return fv_ldexp(fv_exp_core(r), n);
}

/* Returns e^x: 1.1 ulp. */
FV_FN fv_v fv_exp(fv_v x)
{
    fv_v y = fv_exp_bounded(fv_min(fv_set(89.f), fv_max(fv_set(-104.f), x)));
#if !FV_LDEXP_ANY
    y = fv_sel_lt(x, fv_set(-87.3365402f), fv_set(0.f), y);     /* log FLT_MIN */
    y = fv_sel_lt(fv_set(88.7228317f), x, fv_set(INFINITY), y); /* log FLT_MAX */
#endif
    return y;
}

/* Returns e^x - 1: 1.6 ulp. For x > 88 returns the result of x = 88. */
FV_FN fv_v fv_expm1(fv_v x)
{
    fv_v n, r = fv_exp_reduce(&n, fv_min(fv_set(88.f), fv_max(fv_set(-87.f), x)));
    fv_v scale = fv_ldexp(fv_set(1.f), n);
    return fv_fma(scale, fv_expm1_core(r), fv_sub(scale, fv_set(1.f)));
}

/* Returns e^x for x <= 0: 1.1 ulp. */
FV_FN fv_v fv_exp_neg(fv_v x)
{
    fv_v y = fv_exp_bounded(fv_max(fv_set(-104.f), x));
#if !FV_LDEXP_ANY
    y = fv_sel_lt(x, fv_set(-87.3365402f), fv_set(0.f), y);
#endif
    return y;
}

/* Returns 2^x for x <= 0: 1.1 ulp. */
FV_FN fv_v fv_exp2_neg(fv_v x)
{
    fv_v t = fv_max(fv_set(-151.f), x);
    fv_v n = fv_round(t);
    fv_v y = fv_ldexp(fv_exp_core(fv_mul(fv_sub(t, n), fv_set(0.693147181f))), n);
#if !FV_LDEXP_ANY
    y = fv_sel_lt(x, fv_set(-126.f), fv_set(0.f), y);
#endif
    return y;
}

/* Returns 2^x for x <= 0 with an error of 7.5e-5, which is enough for results that are rounded to
 * bfloat16. */
FV_FN fv_v fv_exp2_neg_rough(fv_v x)
{
    const fv_v t = fv_max(fv_set(-151.f), x);
    const fv_v n = fv_round(t), r = fv_sub(t, n);
    fv_v y = fv_set(0.0551716691f);
    y = fv_fma(y, r, fv_set(0.242611122f));
    y = fv_fma(y, r, fv_set(0.693260985f));
    y = fv_ldexp(fv_fma(y, r, fv_set(0.999928074f)), n);
#if !FV_LDEXP_ANY
    y = fv_sel_lt(x, fv_set(-125.f), fv_set(0.f), y);
#endif
    return y;
}

/* Returns erf x, as an odd polynomial divided by an even one: 4e-7, 6 ulp. */
FV_FN fv_v fv_erf(fv_v x)
{
    const fv_v lim = fv_set(4.f), one = fv_set(1.f); /* erf is 1 beyond lim */
    fv_v t = fv_min(lim, fv_max(fv_neg(lim), x)), s = fv_mul(t, t);
    fv_v p = fv_set(1.91110559e-08f);
    p = fv_fma(p, s, fv_set(-1.94232885e-06f));
    p = fv_fma(p, s, fv_set(0.000147287939f));
    p = fv_fma(p, s, fv_set(0.00399061376f));
    p = fv_fma(p, s, fv_set(0.0515249965f));
    p = fv_fma(p, s, fv_set(0.207126103f));
    p = fv_fma(p, s, fv_set(1.12837909f));
    fv_v q = fv_set(0.00102112431f);
    q = fv_fma(q, s, fv_set(0.0149581464f));
    q = fv_fma(q, s, fv_set(0.117971101f));
    q = fv_fma(q, s, fv_set(0.516891977f));
    q = fv_fma(q, s, fv_set(1.f));
    return fv_min(one, fv_max(fv_neg(one), fv_div(fv_mul(t, p), q)));
}

/* Returns tanh x, as an odd polynomial divided by an even one: 6 ulp. */
FV_FN fv_v fv_tanh(fv_v x)
{
    const fv_v lim = fv_set(7.90531111f), one = fv_set(1.f); /* tanh is 1 beyond lim */
    fv_v t = fv_min(lim, fv_max(fv_neg(lim), x)), s = fv_mul(t, t);
    fv_v p = fv_set(-5.64167624e-14f);
    p = fv_fma(p, s, fv_set(4.08741721e-11f));
    p = fv_fma(p, s, fv_set(-1.75837892e-08f));
    p = fv_fma(p, s, fv_set(1.04674992e-05f));
    p = fv_fma(p, s, fv_set(0.00303609832f));
    p = fv_fma(p, s, fv_set(0.130225534f));
    p = fv_fma(p, s, fv_set(0.999999872f));
    fv_v q = fv_set(0.000244866093f);
    q = fv_fma(q, s, fv_set(0.024222764f));
    q = fv_fma(q, s, fv_set(0.463558385f));
    q = fv_fma(q, s, fv_set(1.f));
    return fv_min(one, fv_max(fv_neg(one), fv_div(fv_mul(t, p), q)));
}

/* Returns x q(t), which approximates GELU or its tanh form, accurately enough for results that are
 * rounded to bfloat16. t is x limited to [-limit, limit]; q is a polynomial in t t - middle, made
 * odd in t around 1/2. q is 0 for all x below -limit. */
FV_FN fv_v fv_gelu_rough(fv_v x, const float q[9], float limit, float middle)
{
    const fv_v t = fv_min(fv_set(limit), fv_max(fv_set(-limit), x));
    const fv_v s = fv_fma(t, t, fv_set(-middle));
    fv_v y = fv_set(q[8]);
    FV_UNROLL
    for (int i = 7; i >= 0; i--)
        y = fv_fma(y, s, fv_set(q[i]));
    return fv_mul(x, fv_max(fv_set(0.f), fv_fma(t, y, fv_set(0.49999988f))));
}

/* Returns 1 / (1 + e^-x): 3 ulp. */
FV_FN fv_v fv_sigmoid(fv_v x)
{
    return fv_div(fv_set(1.f), fv_add(fv_set(1.f), fv_exp(fv_neg(x))));
}

/* Returns log(1 + e^x): 2 ulp. */
FV_FN fv_v fv_softplus(fv_v x)
{
    fv_v t = fv_exp_neg(fv_neg(fv_abs(x))); /* log(1 + t) for t <= 1 */
    fv_v p = fv_set(-0.0033184716f);
    p = fv_fma(p, t, fv_set(0.0202045795f));
    p = fv_fma(p, t, fv_set(-0.0576644316f));
    p = fv_fma(p, t, fv_set(0.106805541f));
    p = fv_fma(p, t, fv_set(-0.153553948f));
    p = fv_fma(p, t, fv_set(0.196953997f));
    p = fv_fma(p, t, fv_set(-0.249585867f));
    p = fv_fma(p, t, fv_set(0.33330512f));
    p = fv_fma(p, t, fv_set(-0.499999315f));
    return fv_add(fv_max(fv_set(0.f), x), fv_fma(fv_mul(t, t), p, t));
}

/* Returns ln x for positive normal x: 3 ulp; near x = 1 the error is 2e-7 of x - 1. */
FV_FN fv_v fv_log(fv_v x)
{
    fv_v e, r = fv_sub(fv_frexp(x, &e), fv_set(1.f));
    fv_v s = fv_mul(r, r), p = fv_set(7.0376836292e-2f);
    p = fv_fma(p, r, fv_set(-1.1514610310e-1f));
    p = fv_fma(p, r, fv_set(1.1676998740e-1f));
    p = fv_fma(p, r, fv_set(-1.2420140846e-1f));
    p = fv_fma(p, r, fv_set(1.4249322787e-1f));
    p = fv_fma(p, r, fv_set(-1.6668057665e-1f));
    p = fv_fma(p, r, fv_set(2.0000714765e-1f));
    p = fv_fma(p, r, fv_set(-2.4999993993e-1f));
    p = fv_fma(p, r, fv_set(3.3333331174e-1f));
    p = fv_mul(fv_mul(p, r), s);
    p = fv_fma(e, fv_set(-2.12194440e-4f), p);
    p = fv_fma(s, fv_set(-0.5f), p);
    return fv_fma(e, fv_set(0.693359375f), fv_add(r, p));
}

/* Returns x^p for x >= 0 and p >= 1, and for normal x also if 0 <= p < 1. log2(x) is kept as
 * integer and fraction, so that a large integer part costs no precision. */
FV_FN fv_v fv_pow(fv_v x, fv_v p)
{
    fv_v e, r = fv_sub(fv_frexp(x, &e), fv_set(1.f));
    fv_v l = fv_set(0.125837013f);
    l = fv_fma(l, r, fv_set(-0.207269728f));
    l = fv_fma(l, r, fv_set(0.215715602f));
    l = fv_fma(l, r, fv_set(-0.238944829f));
    l = fv_fma(l, r, fv_set(0.287916243f));
    l = fv_fma(l, r, fv_set(-0.360703677f));
    l = fv_fma(l, r, fv_set(0.480910629f));
    l = fv_fma(l, r, fv_set(-0.721347332f));
    l = fv_fma(l, r, fv_set(0.442694992f));
    l = fv_fma(l, r, r);
    fv_v high = fv_mul(p, e), low = fv_fma(p, e, fv_neg(high));
    fv_v sum = fv_fma(p, l, high), n = fv_round(sum);
    fv_v t = fv_fma(p, l, fv_add(fv_sub(high, n), low));
    fv_v y = fv_ldexp(fv_exp_core(fv_mul(t, fv_set(0.693147181f))), n);
#if !FV_LDEXP_ANY
    y = fv_sel_lt(sum, fv_set(-126.f), fv_set(0.f), y);
    y = fv_sel_lt(fv_set(127.999992f), sum, fv_set(INFINITY), y);
#endif
    return fv_sel_lt(x, fv_set(INFINITY), y, x);
}

/* Returns cos x for |x| <= pi / 4: 1 ulp. */
FV_FN fv_v fv_cos_small(fv_v x)
{
    fv_v s = fv_mul(x, x), p = fv_set(2.443315711809948e-5f);
    p = fv_fma(p, s, fv_set(-1.388731625493765e-3f));
    p = fv_fma(p, s, fv_set(4.166664568298827e-2f));
    return fv_fma(fv_mul(s, s), p, fv_fma(s, fv_set(-0.5f), fv_set(1.f)));
}

/* Returns sin x for |x| <= pi / 4: 1 ulp. */
FV_FN fv_v fv_sin_small(fv_v x)
{
    fv_v s = fv_mul(x, x), p = fv_set(-1.9515295891e-4f);
    p = fv_fma(p, s, fv_set(8.3321608736e-3f));
    p = fv_fma(p, s, fv_set(-1.6666654611e-1f));
    return fv_fma(fv_mul(s, x), p, x);
}

#endif
