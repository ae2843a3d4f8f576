/* probe_bf16_tmpl.c: one thread's peak in products of bfloat16, on levels that have instructions
 * for them. */
#include "platform/cpu/probe.h"

#include "platform/cpu/vec/vec.h"

/* Independent sums, as those of probe_tmpl.c. */
enum { CHAINS = 12 };

#ifdef FV_ISA_AVX512_BF16
#define PRODUCTS 32 /* of a call of `add` */
typedef __m512bh factors;

FV_WORD(factors, ones, (void), (__m512bh)_mm512_set1_epi16(0x3f80))
FV_WORD(fv_v, add, (fv_v sum, factors x, factors y), _mm512_dpbf16_ps(sum, x, y))
#else
#define PRODUCTS 16 /* 2 x 4 by 4 x 2 */
typedef bfloat16x8_t factors;

FV_WORD(factors, ones, (void), vreinterpretq_bf16_u16(vdupq_n_u16(0x3f80)))
FV_WORD(fv_v, add, (fv_v sum, factors x, factors y), vbfmmlaq_f32(sum, x, y))
#endif

/* Runs `rounds` times CHAINS products and returns the FLOPs that were done. */
double FV_NAME(fv_probe_bf16)(uint64_t rounds)
{
    fv_v sum[CHAINS];
    const factors x = ones();
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        sum[i] = fv_set((float)i);
    for (uint64_t r = 0; r < rounds; r++) {
        FV_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = add(sum[i], x, x);
    }
    fv_v all = fv_set(0.f);
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        all = fv_add(all, sum[i]);
    volatile float used = fv_hsum(all);
    (void)used;
    return 2.0 * PRODUCTS * CHAINS * (double)rounds;
}
