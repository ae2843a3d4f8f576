/* bench_fill.c: operands of benchmarks. */
#include "cli/bench/bench.h"

float *bench_floats(size_t n, uint64_t seed)
{
    float *out = cli_alloc(n, sizeof *out);
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (float)((double)(x >> 40) / (1 << 23) - 1);
    }
    return out;
}
