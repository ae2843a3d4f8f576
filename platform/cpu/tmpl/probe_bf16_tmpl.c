/* probe_bf16_tmpl.c: one thread's peak in products of bfloat16, on levels that have instructions
 * for them. */
#include "platform/cpu/probe.h"

#include "platform/cpu/vec/vec.h"
#ifdef FV_ARCH_X86
#include "platform/cpu/x86/dot.h"
#endif

typedef fv_v sums;
FV_WORD(sums, fill, (int i), fv_set((float)i))

#ifdef FV_ISA_AVX512_BF16
#define PRODUCTS 32 /* of a step */
typedef __m512bh operands;

FV_WORD(operands, ones, (void), (__m512bh)_mm512_set1_epi16(0x3f80))
FV_WORD(sums, step, (sums sum), fv_dpbf16(sum, ones(), ones()))
#else
#define PRODUCTS 16 /* multiply-adds of one instruction: 2 x 4 by 4 x 2 */
typedef bfloat16x8_t operands;

FV_WORD(operands, ones, (void), vreinterpretq_bf16_u16(vdupq_n_u16(0x3f80)))
FV_WORD(sums, step, (sums sum), vbfmmlaq_f32(sum, ones(), ones()))
#endif

#include "platform/cpu/tmpl/probe_chains.h"

double FV_NAME(fv_probe_bf16)(uint64_t rounds)
{
    return run_chains(rounds, PRODUCTS);
}
