/* vocabulary.cl: the part of the vector vocabulary that the mechanisms of src/mech/ use, on float
 * or on vectors of FV_WIDTH floats. Their text follows, then that of the kernel. */
#define FV_FN static inline
#ifndef FV_WIDTH
#define FV_WIDTH 1
#endif
#if FV_WIDTH > 1
typedef FV_CAT(float, FV_WIDTH) fv_v;
#else
typedef float fv_v;
#endif

FV_FN fv_v fv_set(float s)
{
    return (fv_v)(s);
}

FV_FN fv_v fv_add(fv_v a, fv_v b)
{
    return a + b;
}

FV_FN fv_v fv_sub(fv_v a, fv_v b)
{
    return a - b;
}

FV_FN fv_v fv_mul(fv_v a, fv_v b)
{
    return a * b;
}

FV_FN fv_v fv_div(fv_v a, fv_v b)
{
    return a / b;
}

FV_FN fv_v fv_fma(fv_v a, fv_v b, fv_v c)
{
    return a * b + c;
}

/* fmin and fmax would lose a NaN in b. */
FV_FN fv_v fv_min(fv_v a, fv_v b)
{
    return FV_LESS_OF(a, b);
}

FV_FN fv_v fv_max(fv_v a, fv_v b)
{
    return FV_MORE_OF(a, b);
}

FV_FN fv_v fv_abs(fv_v x)
{
    return fabs(x);
}

FV_FN fv_v fv_neg(fv_v x)
{
    return -x;
}

FV_FN fv_v fv_sel_lt(fv_v a, fv_v b, fv_v x, fv_v y)
{
    return a < b ? x : y;
}

FV_FN fv_v fv_sel_lt0(fv_v a, fv_v x, fv_v y)
{
    return a < (fv_v)(0.f) ? x : y;
}

FV_FN fv_v fv_sqrt(fv_v x)
{
    return sqrt(x);
}

FV_FN fv_v fv_exp(fv_v x)
{
    return exp(x);
}

FV_FN fv_v fv_exp_neg(fv_v x)
{
    return FV_EXP_NEG(x);
}

#if FV_WIDTH > 1
/* Compilers for processors call a scalar function for each number of a vector. */

/* x^p for x >= 0 and p >= 1. log2(x) is kept in parts: its integer part, large as it may be, costs
 * no digits. */
FV_FN fv_v fv_pow(fv_v x, fv_v p)
{
    typedef FV_CAT(int, FV_WIDTH) bits;
    const bits exponent = (FV_CAT(as_int, FV_WIDTH)(x) - 0x3f3504f3) >> 23;
    const fv_v e = FV_CAT(convert_float, FV_WIDTH)(exponent);
    const fv_v r = FV_CAT(as_float, FV_WIDTH)(FV_CAT(as_int, FV_WIDTH)(x) - (exponent << 23)) - 1.f;
    fv_v l = 0.125837013f;
    l = l * r - 0.207269728f;
    l = l * r + 0.215715602f;
    l = l * r - 0.238944829f;
    l = l * r + 0.287916243f;
    l = l * r - 0.360703677f;
    l = l * r + 0.480910629f;
    l = l * r - 0.721347332f;
    l = l * r + 0.442694992f;
    l = l * r + r;
    const fv_v high = p * e, low = fma(p, e, -high);
    const fv_v sum = p * l + high, n = rint(sum);
    const fv_v t = 0.693147181f * (p * l + (high - n + low));
    fv_v y = 1.9875691500e-4f;
    y = y * t + 1.3981999507e-3f;
    y = y * t + 8.3334519073e-3f;
    y = y * t + 4.1665795894e-2f;
    y = y * t + 1.6666665459e-1f;
    y = y * t + 5.0000001201e-1f;
    y = t * t * y + t + 1.f;
    const bits shift = FV_CAT(convert_int, FV_WIDTH)(clamp(n, -126.f, 128.f)) << 23;
    y = FV_CAT(as_float, FV_WIDTH)(FV_CAT(as_int, FV_WIDTH)(y) + shift);
    y = sum < -126.f ? (fv_v)(0.f) : y;
    y = sum > 127.999992f ? (fv_v)(INFINITY) : y;
    return x < (fv_v)(INFINITY) ? y : x;
}

/* An odd over an even polynomial: 6 ulp. It is 1 beyond 8. */
FV_FN fv_v fv_tanh(fv_v x)
{
    const fv_v t = clamp(x, -7.90531111f, 7.90531111f), s = t * t;
    fv_v p = s * -5.64167624e-14f + 4.08741721e-11f;
    p = p * s - 1.75837892e-08f;
    p = p * s + 1.04674992e-05f;
    p = p * s + 0.00303609832f;
    p = p * s + 0.130225534f;
    p = p * s + 0.999999872f;
    fv_v q = s * 0.000244866093f + 0.024222764f;
    q = q * s + 0.463558385f;
    q = q * s + 1.f;
    const fv_v y = t * p / q;
    return x == x ? clamp(y, -1.f, 1.f) : x;
}
#else
FV_FN fv_v fv_pow(fv_v x, fv_v p)
{
    return pow(x, p);
}

FV_FN fv_v fv_tanh(fv_v x)
{
    return tanh(x);
}
#endif

FV_FN fv_v fv_sigmoid(fv_v x)
{
    return (fv_v)(1.f) / ((fv_v)(1.f) + exp(-x));
}

FV_FN fv_v fv_softplus(fv_v x)
{
    return fv_max((fv_v)(0.f), x) + log1p(exp(-fabs(x)));
}

/* For |x| <= pi / 4: 1 ulp. The built-in functions are for any x. */
FV_FN fv_v fv_cos_small(fv_v x)
{
    const fv_v s = x * x;
    fv_v p = 2.443315711809948e-5f;
    p = p * s - 1.388731625493765e-3f;
    p = p * s + 4.166664568298827e-2f;
    return s * s * p + (1.f - 0.5f * s);
}

FV_FN fv_v fv_sin_small(fv_v x)
{
    const fv_v s = x * x;
    fv_v p = -1.9515295891e-4f;
    p = p * s + 8.3321608736e-3f;
    p = p * s - 1.6666654611e-1f;
    return s * x * p + x;
}
