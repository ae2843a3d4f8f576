/* bench_limits.c: measures the peak FLOP/s and bandwidth of a device, which are the highest values
 * seen. */
#include <math.h>
#include <string.h>

#include "cli/bench/bench.h"

static int raise_device(bench_device *d)
{
    fovea_rates now = FOVEA_RATES_INIT, *best = &d->limits.rates;
    CLI_TRY(cli_check(fovea_device_rates(d->device, &now)));
    best->flops = fmax(best->flops, now.flops);
    best->read = fmax(best->read, now.read);
    best->copy = fmax(best->copy, now.copy);
    best->bf16 = fmax(best->bf16, now.bf16);
    best->int8 = fmax(best->int8, now.int8);
    return bench_gemm_rate(&d->limits.gemm[FOVEA_COMPUTE_F32], d->device, FOVEA_COMPUTE_F32);
}

/* Returns whether a case before number i is on the same device and, with `products`, has products
 * of the same type. */
static bool seen(const bench_case *list, size_t i, bool products)
{
    for (size_t k = 0; k < i; k++)
        if (list[k].on == list[i].on && (!products || list[k].info.compute == list[i].info.compute))
            return true;
    return false;
}

int bench_limits_raise(const bench_case *list, size_t n, double *spent)
{
    const double begin = cli_seconds();
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i++) {
        const fovea_compute compute = list[i].info.compute;
        if (!seen(list, i, false))
            code = raise_device(list[i].on);
        if (!code && compute != FOVEA_COMPUTE_F32 && !seen(list, i, true))
            code = bench_gemm_rate(&list[i].on->limits.gemm[compute], list[i].on->device, compute);
    }
    *spent += cli_seconds() - begin;
    return code;
}

double bench_limits_memory(const bench_limits *l)
{
    return fmax(l->rates.read, l->rates.copy);
}

fovea_compute bench_products(const fovea_step_info *step)
{
    const char *type = step->products ? step->products : "";
    return strcmp(type, "int8") == 0   ? FOVEA_COMPUTE_INT8
           : strcmp(type, "bf16") == 0 ? FOVEA_COMPUTE_BF16
                                       : FOVEA_COMPUTE_F32;
}

double bench_limits_products(const bench_limits *l, fovea_compute compute)
{
    const double rates[] = {l->rates.flops, l->rates.bf16, l->rates.int8}; /* by fovea_compute */
    return fmax(rates[compute], l->gemm[compute]);
}

double bench_limits_bound(const bench_limits *l, fovea_compute compute, double flops, double bytes)
{
    return fmax(flops / bench_limits_products(l, compute), bytes / bench_limits_memory(l));
}
