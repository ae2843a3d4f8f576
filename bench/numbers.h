/* numbers.h: operands of a benchmark. */
#ifndef FOVEA_BENCH_NUMBERS_H
#define FOVEA_BENCH_NUMBERS_H

#include <stdint.h>

#include "bench/stopwatch.h"

/* n numbers from -1 to 1, the same for a seed; to be freed. */
static inline float *numbers(size_t n, uint32_t seed)
{
    float *p = malloc(n * sizeof *p);
    if (!p)
        fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return p;
}

#endif
