/* probe_tmpl.c: one thread's peak in arithmetic and in reading memory. */
#include "platform/cpu/probe.h"

#include "platform/cpu/vec/vec.h"

typedef fv_v sums;
FV_WORD(sums, fill, (int i), fv_set((float)i))
FV_WORD(sums, step, (sums sum), fv_fma(sum, fv_set(0.999999f), fv_set(1e-6f)))
#include "platform/cpu/tmpl/probe_chains.h"

/* Runs fused multiply-adds; returns the number of floating-point operations. */
double FV_NAME(fv_probe_fma)(uint64_t rounds)
{
    return run_chains(rounds, FV_W);
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
