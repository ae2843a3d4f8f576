/* bench_limits.c: the peak FLOP/s and bandwidth of a device: the best that was measured. */
#include <math.h>

#include "cli/bench/bench.h"

static int raise_device(bench_device *d)
{
    fovea_rates now = FOVEA_RATES_INIT, *best = &d->limits.rates;
    CLI_TRY(cli_check(fovea_device_rates(d->device, &now)));
    best->flops = fmax(best->flops, now.flops);
    best->read = fmax(best->read, now.read);
    best->copy = fmax(best->copy, now.copy);
    return bench_gemm_rate(&d->limits.gemm, d->device);
}

int bench_limits_raise(const bench_case *list, size_t n, double *spent)
{
    const double begin = cli_seconds();
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || list[k].on == list[i].on;
        if (!seen)
            code = raise_device(list[i].on);
    }
    *spent += cli_seconds() - begin;
    return code;
}

double bench_limits_memory(const bench_limits *l)
{
    return fmax(l->rates.read, l->rates.copy);
}

double bench_limits_bound(const bench_limits *l, double flops, double bytes)
{
    return fmax(flops / fmax(l->rates.flops, l->gemm), bytes / bench_limits_memory(l));
}
