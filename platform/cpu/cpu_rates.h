/* cpu_rates.h: measures the peak of a pool's processors, and which instructions are worth using. */
#ifndef FOVEA_PLATFORM_CPU_RATES_H
#define FOVEA_PLATFORM_CPU_RATES_H

#include "base/thread.h"

/* Measures arithmetic and memory rates of the pool, with instructions of at most the level in
 * `features`. */
fovea_status fv_cpu_rates(fv_pool *pool, uint32_t features, fovea_rates *out);

/* Returns `features` without the bits of FV_CPU_BF16 whose instructions are slower than the float32
 * multiply-adds that they would replace. On Intel's server processors they reach a third of the
 * float32 rate. The first call in a process measures this, in less than a millisecond. */
uint32_t fv_cpu_fast_features(uint32_t features);

#endif
