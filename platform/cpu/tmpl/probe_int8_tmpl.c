/* probe_int8_tmpl.c: one thread's peak in products of int8, by a level's instructions for them,
 * else by those for 16 bits. */
#include "platform/cpu/probe.h"

#include "platform/cpu/vec/vec.h"
#ifdef FV_ARCH_X86
#include "platform/cpu/x86/dot.h"
#endif

/* step(sum) adds products of a vector with itself or with the sum, so that the compiler cannot move
 * them out of the loop. */
#if defined FV_ISA_AVX512_VNNI
#define PRODUCTS 64 /* of a step */
typedef __m512i sums;

FV_WORD(sums, fill, (int x), _mm512_set1_epi8((char)x))
FV_WORD(sums, add, (sums sum, sums x), fv_dpbusd(sum, x, x))
#elif defined FV_ISA_AVX512
#define PRODUCTS 32
typedef __m512i sums;

FV_WORD(sums, fill, (int x), _mm512_set1_epi16((short)x))
FV_WORD(sums, add, (sums sum, sums x), fv_madd(sum, sum, x))
#elif defined FV_ISA_AVX_VNNI
#define PRODUCTS 32
typedef __m256i sums;

FV_WORD(sums, fill, (int x), _mm256_set1_epi8((char)x))
FV_WORD(sums, add, (sums sum, sums x), fv_dpbusd(sum, x, x))
#elif defined FV_ISA_AVX2
#define PRODUCTS 16
typedef __m256i sums;

FV_WORD(sums, fill, (int x), _mm256_set1_epi16((short)x))
FV_WORD(sums, add, (sums sum, sums x), fv_madd(sum, sum, x))
#elif defined FV_ISA_NEON_I8MM
#define PRODUCTS 32 /* multiply-adds of one instruction: 2 x 8 by 8 x 2 */
typedef int32x4_t sums;

FV_WORD(sums, fill, (int x), vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x)))
FV_WORD(sums, add, (sums sum, sums x),
        vmmlaq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(x)))
#elif defined FV_ISA_NEON_SDOT
#define PRODUCTS 16
typedef int32x4_t sums;

FV_WORD(sums, fill, (int x), vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x)))
FV_WORD(sums, add, (sums sum, sums x),
        vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(x)))
#endif

FV_WORD(sums, step, (sums sum), add(sum, fill(1)))
#include "platform/cpu/tmpl/probe_chains.h"

double FV_NAME(fv_probe_int8)(uint64_t rounds)
{
    return run_chains(rounds, PRODUCTS);
}
