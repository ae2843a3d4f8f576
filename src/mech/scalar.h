/* scalar.h: the functions of the vector vocabulary that mechanism headers use, for a single float:
 * for the references in src/ops/ref/. */
#ifndef FOVEA_SRC_MECH_SCALAR_H
#define FOVEA_SRC_MECH_SCALAR_H

#include <math.h>

#define FV_FN static inline __attribute__((unused))
#include "mech/word.h"

typedef float fv_v;

FV_WORD(fv_v, fv_set, (float s), s)
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), a + b)
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), a - b)
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), (a * b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), a / b)
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), (a * b) + c)
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), a < b ? a : b)
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), a > b ? a : b)
FV_WORD(fv_v, fv_abs, (fv_v x), fabsf(x))
FV_WORD(fv_v, fv_neg, (fv_v x), -x)
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y), a < b ? x : y)
FV_WORD(fv_v, fv_sel_lt0, (fv_v a, fv_v x, fv_v y), a < 0.f ? x : y)
FV_WORD(fv_v, fv_sqrt, (fv_v x), sqrtf(x))
FV_WORD(fv_v, fv_exp, (fv_v x), expf(x))
FV_WORD(fv_v, fv_exp_neg, (fv_v x), expf(x))
FV_WORD(fv_v, fv_pow, (fv_v x, fv_v p), powf(x, p))
FV_WORD(fv_v, fv_log, (fv_v x), logf(x))
FV_WORD(fv_v, fv_tanh, (fv_v x), tanhf(x))
FV_WORD(fv_v, fv_sigmoid, (fv_v x), 1.f / (1.f + expf(-x)))
FV_WORD(fv_v, fv_softplus, (fv_v x), fv_max(0.f, x) + log1pf(expf(-fabsf(x))))
FV_WORD(fv_v, fv_cos_small, (fv_v x), cosf(x))
FV_WORD(fv_v, fv_sin_small, (fv_v x), sinf(x))

#endif
