/* probe_tmpl.c: one thread's peak in arithmetic and in reading memory. */
#include "platform/cpu/probe.h"

#include "platform/cpu/vec/vec.h"

/* Independent sums: enough to hide the latency of a multiply-add, few enough for the registers. */
enum { CHAINS = 12 };

/* Runs `rounds` times CHAINS fused multiply-adds and returns the FLOPs that were done. */
double FV_NAME(fv_probe_fma)(uint64_t rounds)
{
    fv_v sum[CHAINS];
    const fv_v factor = fv_set(0.999999f), term = fv_set(1e-6f);
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        sum[i] = fv_set((float)i);
    for (uint64_t r = 0; r < rounds; r++) {
        FV_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = fv_fma(sum[i], factor, term);
    }
    fv_v all = fv_set(0.f);
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        all = fv_add(all, sum[i]);
    volatile float used = fv_hsum(all);
    (void)used;
    return 2.0 * FV_W * CHAINS * (double)rounds;
}

/* Reads n floats, a multiple of 4 FV_W, once. */
float FV_NAME(fv_probe_read)(const float *p, size_t n)
{
    fv_v a = fv_set(0.f), b = a, c = a, d = a;
    for (size_t i = 0; i + 4 * FV_W <= n; i += 4 * FV_W) {
        a = fv_add(a, fv_load(p + i));
        b = fv_add(b, fv_load(p + i + FV_W));
        c = fv_add(c, fv_load(p + i + 2 * FV_W));
        d = fv_add(d, fv_load(p + i + 3 * FV_W));
    }
    return fv_hsum(fv_add(fv_add(a, b), fv_add(c, d)));
}
