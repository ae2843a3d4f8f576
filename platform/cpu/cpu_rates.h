/* cpu_rates.h: measures the peak of a pool's processors. */
#ifndef FOVEA_PLATFORM_CPU_RATES_H
#define FOVEA_PLATFORM_CPU_RATES_H

#include "base/thread.h"

/* `features`: the highest level that may be used. */
fovea_status fv_cpu_rates(fv_pool *pool, uint32_t features, fovea_rates *out);

#endif
