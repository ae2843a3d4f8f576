/* c.h: vec.h's vector functions without intrinsics, on four lanes of the compiler's generic
 * vectors. The compiler maps them to SSE2 or NEON if every machine of the architecture has it, else
 * to scalar code. rvv.h uses the same functions for a level of its own. */
#ifndef FOVEA_PLATFORM_VEC_C_H
#define FOVEA_PLATFORM_VEC_C_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define FV_W 4
#ifndef FV_REGS
#define FV_REGS 16
#define FV_FUSED 0
#endif
#define FV_LDEXP_ANY 0
typedef float fv_v __attribute__((vector_size(16)));
typedef int32_t fv_bits __attribute__((vector_size(16)));
typedef uint32_t fv_ubits __attribute__((vector_size(16)));
typedef uint16_t fv_h __attribute__((vector_size(8)));

FV_WORD(fv_v, fv_set, (float s), (fv_v){s, s, s, s})

FV_FN fv_v fv_load(const float *p)
{
    fv_v x;
    memcpy(&x, p, sizeof x);
    return x;
}

FV_FN void fv_store(float *p, fv_v x)
{
    memcpy(p, &x, sizeof x);
}

FV_FN fv_v fv_load_n(const float *p, int n)
{
    if (n == FV_W)
        return fv_load(p);
    fv_v x = fv_set(0.f);
    for (int i = 0; i < n; i++)
        x[i] = p[i];
    return x;
}

FV_FN void fv_store_n(float *p, fv_v x, int n)
{
    if (n == FV_W) {
        fv_store(p, x);
        return;
    }
    for (int i = 0; i < n; i++)
        p[i] = x[i];
}

/* x where mask is all ones, y where it is zero. */
FV_WORD(fv_v, fv_blend, (fv_bits mask, fv_v x, fv_v y),
        (fv_v)((mask & (fv_bits)x) | (~mask & (fv_bits)y)))
FV_WORD(fv_v, fv_blend_n, (fv_v x, fv_v y, int n),
        fv_blend((fv_bits){0, 1, 2, 3} < (fv_bits){n, n, n, n}, x, y))
FV_WORD(fv_v, fv_first_n, (fv_v x, int n), fv_blend_n(x, fv_set(0.f), n))
FV_WORD(fv_v, fv_add, (fv_v a, fv_v b), a + b)
FV_WORD(fv_v, fv_sub, (fv_v a, fv_v b), a - b)
FV_WORD(fv_v, fv_mul, (fv_v a, fv_v b), (a * b))
FV_WORD(fv_v, fv_div, (fv_v a, fv_v b), a / b)
FV_WORD(fv_v, fv_sqrt, (fv_v x),
        (fv_v){__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]),
               __builtin_sqrtf(x[3])})
#if FV_FUSED
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c),
        (fv_v){__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]),
               __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])})
#else
FV_WORD(fv_v, fv_fma, (fv_v a, fv_v b, fv_v c), (a * b) + c)
#endif
FV_WORD(fv_v, fv_sel_lt, (fv_v a, fv_v b, fv_v x, fv_v y), fv_blend((fv_bits)(a < b), x, y))
FV_WORD(fv_v, fv_min, (fv_v a, fv_v b), fv_sel_lt(a, b, a, b))
FV_WORD(fv_v, fv_max, (fv_v a, fv_v b), fv_sel_lt(b, a, a, b))
FV_WORD(fv_v, fv_abs, (fv_v x), (fv_v)((fv_bits)x &INT32_MAX))
FV_WORD(fv_v, fv_neg, (fv_v x), -x)

/* Beyond 2^23 a float has no fraction left, so adding 1.5 2^23 rounds it away. */
FV_WORD(fv_v, fv_round, (fv_v x), (x + 12582912.f) - 12582912.f)

/* Wraps around on overflow, as on the other ISAs; callers replace such results. */
FV_WORD(fv_v, fv_ldexp, (fv_v x, fv_v n),
        (fv_v)((fv_ubits)x + ((fv_ubits) __builtin_convertvector(n, fv_bits) << 23)))

FV_FN fv_v fv_of_bits(fv_v y, fv_v *m)
{
    const fv_bits bits = __builtin_convertvector(y, fv_bits);
    *m = (fv_v)((bits & 0x7fffff) | 0x3f800000);
    return (fv_v)bits;
}

FV_FN fv_v fv_frexp(fv_v x, fv_v *e)
{
    fv_bits n = ((fv_bits)x - 0x3f3504f3) >> 23;
    *e = __builtin_convertvector(n, fv_v);
    return (fv_v)((fv_bits)x - (n << 23));
}

FV_WORD(fv_v, fv_turn, (fv_v x), (fv_v){-x[1], x[0], -x[3], x[2]})
FV_WORD(float, fv_hsum, (fv_v x), (x[0] + x[2]) + (x[1] + x[3]))

FV_FN fv_v fv_hsum_rows(const float *p)
{
    fv_v sum;
    for (int i = 0; i < FV_W; i++)
        sum[i] = fv_hsum(fv_load(p + i * FV_W));
    return sum;
}

FV_FN float fv_hmax(fv_v x)
{
    float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];
    return a > b ? a : b;
}

FV_WORD(fv_v, fv_load_i8, (const int8_t *p), (fv_v){p[0], p[1], p[2], p[3]})

/* fv_float_of_f16 on every lane. */
FV_FN fv_v fv_of_f16(fv_h x)
{
    const fv_bits h = __builtin_convertvector(x, fv_bits), size = h & 0x7fff;
    const fv_v small = __builtin_convertvector(size, fv_v) * 0x1p-24f;
    const fv_bits raise = (112 << 23) + ((size >= 0x7c00) & (112 << 23));
    const fv_v y = fv_blend(size < 0x0400, small, (fv_v)((size << 13) + raise));
    return (fv_v)((fv_bits)y | (fv_bits)((fv_ubits)(h & 0x8000) << 16));
}

FV_WORD(fv_h, fv_to_f16, (fv_v x),
        (fv_h){fv_f16_of_float(x[0]), fv_f16_of_float(x[1]), fv_f16_of_float(x[2]),
               fv_f16_of_float(x[3])})
FV_WORD(fv_v, fv_of_bf16, (fv_h x),
        (fv_v){fv_float_of_bf16(x[0]), fv_float_of_bf16(x[1]), fv_float_of_bf16(x[2]),
               fv_float_of_bf16(x[3])})
FV_WORD(fv_h, fv_to_bf16, (fv_v x),
        (fv_h){fv_bf16_of_float(x[0]), fv_bf16_of_float(x[1]), fv_bf16_of_float(x[2]),
               fv_bf16_of_float(x[3])})
FV_WORD(fv_v, fv_round_bf16, (fv_v x), fv_of_bf16(fv_to_bf16(x)))

#endif
