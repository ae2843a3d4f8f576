/* dot.h: vectors of integer sums, and the instructions that add products of several steps to them
 * on each level.
 *
 * With intrinsics, GCC computes all products of a tile first, runs out of registers, and copies
 * every sum to another register and back. In AVX-512 VNNI's tile of softmax that made 49 copies and
 * 18 stores for 24 products. Asm statements make a sum stay in its register. Tests that emulate a
 * level define its instruction before they include this file. */
#ifndef FOVEA_PLATFORM_X86_DOT_H
#define FOVEA_PLATFORM_X86_DOT_H

#include "platform/cpu/vec/vec.h"

/* fv_whole: FV_W sums. fv_steps: several steps for each of FV_W lanes. */
#if FV_W == 16
typedef __m512i fv_whole, fv_steps;

FV_WORD(fv_whole, fv_whole_set, (int32_t x), _mm512_set1_epi32(x))
FV_WORD(fv_whole, fv_whole_sub, (fv_whole a, fv_whole b), _mm512_sub_epi32(a, b))
FV_WORD(fv_whole, fv_whole_load, (const void *p), _mm512_loadu_si512(p))
FV_WORD(fv_v, fv_of_whole, (fv_whole x), _mm512_cvtepi32_ps(x))
FV_WORD(int32_t, fv_whole_total, (fv_whole x), _mm512_reduce_add_epi32(x))
FV_WORD(fv_steps, fv_pair_products, (fv_steps x, fv_steps y), _mm512_madd_epi16(x, y))
#else
typedef __m256i fv_whole, fv_steps;

FV_WORD(fv_whole, fv_whole_set, (int32_t x), _mm256_set1_epi32(x))
FV_WORD(fv_whole, fv_whole_sub, (fv_whole a, fv_whole b), _mm256_sub_epi32(a, b))
FV_WORD(fv_whole, fv_whole_load, (const void *p), _mm256_loadu_si256((const __m256i *)p))
FV_WORD(fv_v, fv_of_whole, (fv_whole x), _mm256_cvtepi32_ps(x))
FV_WORD(fv_steps, fv_pair_products, (fv_steps x, fv_steps y), _mm256_madd_epi16(x, y))

FV_FN int32_t fv_whole_total(fv_whole x)
{
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
}
#endif

FV_WORD(fv_steps, fv_lanes_load, (const void *p), fv_whole_load(p))
/* Broadcasts a group of steps to all lanes. */
FV_WORD(fv_steps, fv_steps_set, (int32_t group), fv_whole_set(group))

/* Returns a sum that begins with x. Without the asm statement GCC would keep equal initial values
 * in one register, and copy sums in every step. */
FV_FN fv_whole fv_sum_of(int32_t x)
{
    fv_whole sum = fv_whole_set(x);
    __asm__ volatile("" : "+v"(sum));
    return sum;
}

FV_WORD(fv_whole, fv_zero_sum, (void), fv_sum_of(0))

/* Returns sum + products of 16-bit numbers, in pairs. AVX2 and AVX-512 need no extension for this.
 */
FV_FN fv_whole fv_madd(fv_whole sum, fv_steps x, fv_steps y)
{
    const fv_whole products = fv_pair_products(x, y);
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(products));
    return sum;
}

/* sum + products of 8-bit numbers, in fours: x is unsigned, y signed. */
#if (defined FV_ISA_AVX512_VNNI || defined FV_ISA_AVX_VNNI) && !defined fv_dpbusd
#ifdef FV_ISA_AVX_VNNI
#define DPBUSD "%{vex%} vpdpbusd"
#else
#define DPBUSD "vpdpbusd"
#endif
FV_FN fv_whole fv_dpbusd(fv_whole sum, fv_steps x, fv_steps y)
{
    __asm__(DPBUSD " %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#undef DPBUSD
#endif

/* sum + bfloat16, in pairs. */
#if defined FV_ISA_AVX512_BF16 && !defined fv_dpbf16
FV_FN __m512 fv_dpbf16(__m512 sum, __m512bh x, __m512bh y)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#endif

#endif
