/* vocabulary.cl: the vector functions that the mechanisms of src/mech/ use, for single floats. The
 * text of the mechanism follows, then that of the kernel. */
#define FV_FN static inline
typedef float fv_v;
/* As in word.h, but without variadic macros, which OpenCL C 1.2 does not have. */
#define FV_WORD(type, name, parameters, value)                                                     \
    FV_FN type name parameters                                                                     \
    {                                                                                              \
        return value;                                                                              \
    }

FV_WORD(fv_v, fv_set, (float s), s)
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), a + b)
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), a - b)
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), (a * b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), a / b)
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), (a * b) + c)
/* Not fmin and fmax, which would lose a NaN in b. */
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), FV_LESS_OF(a, b))
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), FV_MORE_OF(a, b))
FV_WORD(fv_v, fv_abs, (fv_v x), fabs(x))
FV_WORD(fv_v, fv_neg, (fv_v x), -x)
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y), a < b ? x : y)
FV_WORD(fv_v, fv_sel_lt0, (fv_v a, fv_v x, fv_v y), a < 0.f ? x : y)
FV_WORD(fv_v, fv_sqrt, (fv_v x), sqrt(x))
FV_WORD(fv_v, fv_exp, (fv_v x), exp(x))
FV_WORD(fv_v, fv_exp_neg, (fv_v x), FV_EXP_NEG(x))
FV_WORD(fv_v, fv_pow, (fv_v x, fv_v p), pow(x, p))
FV_WORD(fv_v, fv_tanh, (fv_v x), tanh(x))
FV_WORD(fv_v, fv_sigmoid, (fv_v x), 1.f / (1.f + exp(-x)))
FV_WORD(fv_v, fv_softplus, (fv_v x), fv_max(0.f, x) + log1p(exp(-fabs(x))))

/* For |x| <= pi / 4, with 1 ulp; the built-in functions are slower, since they handle any x. */
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
