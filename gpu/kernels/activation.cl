/* activation.cl: FV_ACT(w, x) applies the activation of the epilogue, which FV_EPI selects, to w
 * floats. */

#include "gpu/kernels/fma.cl"

/* erf as an odd polynomial over an even one: 4e-7, 6 ulp. Beyond 4 it is 1. */
#define FV_ERF(V)                                                                                  \
    static inline V fv_erf_##V(V x)                                                                \
    {                                                                                              \
        const V t = clamp(x, -4.f, 4.f), s = t * t;                                                \
        V p = FV_MAD(s, (V)(1.91110559e-08f), (V)(-1.94232885e-06f));                              \
        p = FV_MAD(p, s, (V)(0.000147287939f));                                                    \
        p = FV_MAD(p, s, (V)(0.00399061376f));                                                     \
        p = FV_MAD(p, s, (V)(0.0515249965f));                                                      \
        p = FV_MAD(p, s, (V)(0.207126103f));                                                       \
        p = FV_MAD(p, s, (V)(1.12837909f));                                                        \
        V q = FV_MAD(s, (V)(0.00102112431f), (V)(0.0149581464f));                                  \
        q = FV_MAD(q, s, (V)(0.117971101f));                                                       \
        q = FV_MAD(q, s, (V)(0.516891977f));                                                       \
        q = FV_MAD(q, s, (V)(1.f));                                                                \
        return clamp(t * p / q, -1.f, 1.f);                                                        \
    }

#define FV_SILU(x) ((x) / (1.f + exp(-(x))))

#if FV_EPI & FV_EPI_GELU
FV_ERF(float)
#if FV_TN == 2
FV_ERF(float2)
#endif
FV_ERF(float4)
FV_ERF(float8)
#if FV_TN == 16
FV_ERF(float16)
#endif
#define FV_ACT(w, x) (0.5f * (x) * (1.f + FV_CAT(fv_erf_float, w)((x)*0.707106781f)))
#define fv_erf_float1 fv_erf_float
#elif FV_EPI & FV_EPI_GELU_TANH
/* (1 + tanh y) / 2 = 1 / (1 + e^-2y) */
#define FV_ACT(w, x) ((x) / (1.f + exp(-1.59576912f * (x)*FV_MAD(0.044715f * (x), (x), 1.f))))
#elif FV_EPI & FV_EPI_GELU_QUICK
#define FV_ACT(w, x) ((x) / (1.f + exp(-1.702f * (x))))
#elif FV_EPI & FV_EPI_SILU
#define FV_ACT(w, x) FV_SILU(x)
#elif FV_EPI & FV_EPI_TANH
#define FV_ACT(w, x) tanh(x)
#elif FV_EPI & FV_EPI_RELU
#define FV_ACT(w, x) fmax(x, 0.f)
#elif FV_EPI & FV_EPI_SIGMOID
#define FV_ACT(w, x) (1.f / (1.f + exp(-(x))))
#elif FV_EPI & FV_EPI_SOFTPLUS
#define FV_ACT(w, x) (fmax(x, 0.f) + log1p(exp(-fabs(x))))
#else
#define FV_ACT(w, x) (x)
#endif
