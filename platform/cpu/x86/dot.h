/* dot.h: sums += products of several steps, by the instructions of each level.
 *
 * Intrinsics for them leave GCC free to do all products of a tile first, for which it runs out of
 * registers, and to copy every sum to another register and back: of AVX-512 VNNI's tile of softmax
 * that made 49 copies and 18 stores of 24 products. What adds to a sum is told to be where the sum
 * is. Tests that emulate a level define its word before. */
#ifndef FOVEA_PLATFORM_X86_DOT_H
#define FOVEA_PLATFORM_X86_DOT_H

#include "platform/cpu/vec/vec.h"

/* Zeros of a sum's own: GCC keeps those that are the same in one register, and moves sums about in
 * every step. */
#if FV_W == 16
FV_FN __m512i fv_zero_sum(void)
{
    __m512i sum = _mm512_setzero_si512();
    __asm__ volatile("" : "+v"(sum));
    return sum;
}
#else
FV_FN __m256i fv_zero_sum(void)
{
    __m256i sum = _mm256_setzero_si256();
    __asm__ volatile("" : "+x"(sum));
    return sum;
}
#endif

/* Numbers of 16 bits in pairs, what AVX2 and AVX-512 have by themselves. */
#if FV_W == 16
FV_FN __m512i fv_madd(__m512i sum, __m512i x, __m512i y)
{
    const __m512i products = _mm512_madd_epi16(x, y);
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(products));
    return sum;
}
#else
FV_FN __m256i fv_madd(__m256i sum, __m256i x, __m256i y)
{
    const __m256i products = _mm256_madd_epi16(x, y);
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(products));
    return sum;
}
#endif

/* Numbers of 8 bits in fours: x without a sign, y with one. */
#if defined FV_ISA_AVX512_VNNI && !defined fv_dpbusd
FV_FN __m512i fv_dpbusd(__m512i sum, __m512i x, __m512i y)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#elif defined FV_ISA_AVX_VNNI && !defined fv_dpbusd
FV_FN __m256i fv_dpbusd(__m256i sum, __m256i x, __m256i y)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
    return sum;
}
#endif

/* Pairs of bfloat16. */
#if defined FV_ISA_AVX512_BF16 && !defined fv_dpbf16
FV_FN __m512 fv_dpbf16(__m512 sum, __m512bh x, __m512bh y)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#endif

#endif
