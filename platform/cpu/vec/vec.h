/* vec.h: the vector functions that kernels use. They have the same names on every ISA, and each
 * works on a vector of FV_W floats.
 *
 * A template uses these names and is compiled once per ISA with FV_ISA_C, FV_ISA_AVX2,
 * FV_ISA_AVX512, FV_ISA_NEON or FV_ISA_RVV defined; FV_NAME(x) is then x_c, x_avx2, x_avx512,
 * x_neon or x_rvv. Levels above these have the functions of the level below; they are for kernels
 * that use further instructions.
 *
 *   FV_W  lanes            FV_REGS  vector registers of the machine
 *   FV_FUSED               fma rounds once
 *   FV_LDEXP_ANY           ldexp takes any x and n; its result underflows to 0, or overflows to inf
 *   set(s) load(p) store(p,x)                 p needs the alignment of float only
 *   load_n(p,n) store_n(p,x,n) first_n(x,n)   the first n lanes, 0 <= n <= FV_W: memory beyond them
 *                                             is not touched, lanes beyond them are read as zero
 *   blend_n(x,y,n)     the first n lanes of x, the others of y
 *   add sub mul div abs neg sqrt
 *   fma(a,b,c)         a b + c, rounded once where the ISA can
 *   min(a,b) max(a,b)  NaN if b is NaN: write min(limit, x) to let the NaN of x through
 *   sel_lt(a,b,x,y)    a < b ? x : y per lane; sel_lt0(a,x,y) with b = 0
 *   round(x)           to the nearest integer, ties to even; |x| <= 2^22 or NaN
 *   ldexp(x,n)         x 2^n for an integer n; without FV_LDEXP_ANY x and the result are
 *                      normal, or x NaN
 *   of_bits(y,&m)      the float whose bits are the whole number in y, 0 <= y < 2^31; m: its
 *                      mantissa in [1, 2)
 *   frexp(x,&e)        x = m 2^e, returns m in [sqrt(1/2), sqrt(2)); x positive and normal, for 0
 *                      m = 1 and e = -127; for infinities and NaN undefined
 *   turn(x)            every pair of lanes (a, b) becomes (-b, a)
 *   hsum(x) hmax(x)    over the lanes, in an order that depends on FV_W only
 *   hsum_rows(p)       lane i: the sum of p[i FV_W] .. p[i FV_W + FV_W - 1], in an order that does
 *                      not depend on i
 *   load_four(p)       fv_four: the four floats at p, which a multiply-add takes one by one. With
 *                      FV_FOURS 1 they are kept in a register for that, else they stay in memory
 *   fma_four(x,i,b,c)  fma(set(x[i]), b, c)
 *   load_h(p,n) store_h(p,h,n)    fv_h: FV_W values of 16 bits, the first n of them in memory
 *   of_f16(h) to_f16(x) of_bf16(h) to_bf16(x)   between fv_h and floats; see row.h
 *   round_bf16(x)      of_bf16(to_bf16(x))
 *   load_i8(p)         FV_W whole numbers of 8 bits, as floats
 */
#ifndef FOVEA_PLATFORM_VEC_VEC_H
#define FOVEA_PLATFORM_VEC_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FV_FN static inline __attribute__((always_inline, unused))
/* Marks code for partial vectors, at the ends of rows. It is out of line, so that loops stay small.
 */
#define FV_PART static __attribute__((noinline, cold, unused))
#include "mech/word.h"

/* Unrolls loops of few iterations over vectors that must stay in registers. */
#ifdef __clang__
#define FV_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FV_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined FV_ISA_AVX512_BF16
#define FV_ISA avx512_bf16
#include "platform/cpu/vec/avx512.h"
#elif defined FV_ISA_AVX512_VNNI
#define FV_ISA avx512_vnni
#include "platform/cpu/vec/avx512.h"
#elif defined FV_ISA_AVX_VNNI
#define FV_ISA avx_vnni
#include "platform/cpu/vec/avx2.h"
#elif defined FV_ISA_AVX512
#define FV_ISA avx512
#include "platform/cpu/vec/avx512.h"
#elif defined FV_ISA_AVX2
#define FV_ISA avx2
#include "platform/cpu/vec/avx2.h"
#elif defined FV_ISA_NEON_I8MM
#define FV_ISA neon_i8mm
#include "platform/cpu/vec/neon.h"
#elif defined FV_ISA_NEON_SDOT
#define FV_ISA neon_sdot
#include "platform/cpu/vec/neon.h"
#elif defined FV_ISA_NEON_DOT
#define FV_ISA neon_dot
#include "platform/cpu/vec/neon.h"
#elif defined FV_ISA_NEON_FP16
#define FV_ISA neon_fp16
#include "platform/cpu/vec/neon.h"
#elif defined FV_ISA_NEON
#define FV_ISA neon
#include "platform/cpu/vec/neon.h"
#elif defined FV_ISA_RVV
#define FV_ISA rvv
#include "platform/cpu/vec/rvv.h"
#elif defined FV_ISA_C
#define FV_ISA c
#include "platform/cpu/vec/c.h"
#else
#error "define one of FV_ISA_C, _AVX2, _AVX512, _NEON, _RVV or a level above it"
#endif

#ifndef FV_FUSED
#define FV_FUSED 1
#endif

#ifndef FV_FOURS
#define FV_FOURS 0
typedef const float *fv_four;

FV_FN fv_four fv_load_four(const float *p)
{
    return p;
}

FV_FN fv_v fv_fma_four(fv_four x, int i, fv_v b, fv_v c)
{
    return fv_fma(fv_set(x[i]), b, c);
}
#endif

#ifndef FV_MASKED_HALVES
FV_PART fv_h fv_load_h_part(const uint16_t *p, int n)
{
    fv_h h;
    uint16_t lane[FV_W] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    memcpy(&h, lane, sizeof h);
    return h;
}

FV_PART void fv_store_h_part(uint16_t *p, fv_h h, int n)
{
    uint16_t lane[FV_W];
    memcpy(lane, &h, sizeof h);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

FV_FN fv_h fv_load_h(const uint16_t *p, int n)
{
    fv_h h;
    if (n != FV_W)
        return fv_load_h_part(p, n);
    memcpy(&h, p, sizeof h);
    return h;
}

FV_FN void fv_store_h(uint16_t *p, fv_h h, int n)
{
    if (n == FV_W)
        memcpy(p, &h, sizeof h);
    else
        fv_store_h_part(p, h, n);
}
#endif

/* Returns how many lanes the next vector fills if `left` values remain. */
FV_FN int fv_lanes(size_t left)
{
    return left < FV_W ? (int)left : FV_W;
}

#define FV_NAME_PASTE(x, isa) x##_##isa
#define FV_NAME_VALUES(x, isa) FV_NAME_PASTE(x, isa)
#define FV_NAME(x) FV_NAME_VALUES(x, FV_ISA)

FV_FN fv_v fv_sel_lt0(fv_v a, fv_v x, fv_v y)
{
    return fv_sel_lt(a, fv_set(0.f), x, y);
}

#endif
