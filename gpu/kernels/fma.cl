/* fma.cl: a * b + c by the faster of the two functions for it. */
#ifdef FP_FAST_FMAF
#define FV_MAD(a, b, c) fma(a, b, c)
#else
#define FV_MAD(a, b, c) mad(a, b, c)
#endif
