/* madd.h: products of 16 bits, added in pairs, what AVX2 and AVX-512 have without VNNI. */
#ifndef FOVEA_PLATFORM_X86_MADD_H
#define FOVEA_PLATFORM_X86_MADD_H

#include "platform/cpu/vec/vec.h"

/* sum + the products of x and y. The addition is told to GCC as it is: it would do all products of
 * a tile first and run out of registers, or copy every sum to another register. */
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

#endif
