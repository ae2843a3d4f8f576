/* dot_neon.h: multiplies 8-bit numbers on plain NEON, which adds the products in pairs. Each half
 * of the steps has its own accumulators. */
#include "platform/cpu/arm/whole_neon.h"

#define SPLIT 2
#define BIAS 0
typedef int8x8_t numbers;

FV_WORD(numbers, columns, (const int8_t *w), vld1_s8(w))

FV_FN numbers steps(const number *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return vreinterpret_s8_s32(vdup_n_s32(four));
}

FV_WORD(sums, add, (sums sum, numbers x, numbers column), vpadalq_s16(sum, vmull_s8(x, column)))

FV_FN void put(int32_t *acc, const sums *sum)
{
    vst1q_s32(acc, vpaddq_s32(sum[0], sum[1]));
}
