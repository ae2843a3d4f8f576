/* cpu_rates.h: measures the peak of a pool's processors, and which instructions are worth using. */
#ifndef FOVEA_PLATFORM_CPU_RATES_H
#define FOVEA_PLATFORM_CPU_RATES_H

#include "base/thread.h"

/* `features`: the highest level that may be used. */
fovea_status fv_cpu_rates(fv_pool *pool, uint32_t features, fovea_rates *out);

/* `features` without those bits of FV_CPU_BF16 whose instructions are slower than the multiply-adds
 * of float32 that they stand for: on Intel's server processors they have a third of the rate. Takes
 * less than a millisecond, once in a process. */
uint32_t fv_cpu_fast_features(uint32_t features);

#endif
