/* bench_fill.c: fills the operands of benchmarks. */
#include "cli/bench/bench.h"

#include <stdlib.h>

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

void *bench_values(size_t n, fovea_dtype type, uint64_t seed)
{
    float *x = bench_floats(n, seed);
    if (type == FOVEA_DTYPE_F32)
        return x;
    uint16_t *h = cli_alloc(n, sizeof *h);
    fovea_floats_encode(h, type, x, n);
    free(x);
    return h;
}

fovea_dtype bench_rows_type(const cli_settings *s)
{
    return s->dtype_given || s->compute == FOVEA_COMPUTE_F32 || s->compute == FOVEA_COMPUTE_AUTO
               ? s->dtype
               : FOVEA_DTYPE_BF16;
}
