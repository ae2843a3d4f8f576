/* cl_rates.c: how fast a device computes and moves data: roughly, to cut dispatches by; and at its
 * best, to be shown.
 */
#include <stdio.h>

#include "cl_probe.h"

/* How much is done for one answer. */
struct effort {
    double seconds; /* of a run, about */
    uint64_t bytes; /* of a buffer at most */
    /* Of the kernels in probe.cl: */
    int which;       /* FV_PROBE_* */
    uint32_t floats; /* of a value */
    double flops;    /* of a work-item and turn */
};

static const struct effort rough = {2e-3, UINT64_C(16) << 20, 5, 4, 2.0 * 64 * 4};
static const struct effort best = {30e-3, UINT64_C(256) << 20, 7, 4, 2.0 * 128 * 4};
static const struct effort best_of_cpu = {30e-3, UINT64_C(256) << 20, 7, 16, 2.0 * 128 * 16};

enum {
    DOUBLINGS = 20,
    FEW_TURNS = 1 << 10, /* of a device that leaves loops early */
    TRIES = 3,
};

/* ---- one rate ---- */

static size_t items_of(const fv_device *d, size_t group)
{
    return group * 16 * (d->limits.units ? d->limits.units : 1);
}

/* Twice as much work until it takes long enough. Some drivers compile when a kernel runs for the
 * first time. */
static fovea_status measure_compute(fv_device *d, cl_kernel k, cl_mem out,
                                    const struct effort *effort, double *rate)
{
    const size_t group = fv_cl_probe_group(d, k, FV_CL_PROBE_ITEMS), items = items_of(d, group);
    const cl_uint most = d->limits.few_turns ? FEW_TURNS : 1u << DOUBLINGS;
    double seconds = 0;
    cl_uint turns = 0;
    FV_TRY(fv_cl_probe_set(k, 0, sizeof out, &out));
    FV_TRY(fv_cl_probe_set(k, 1, sizeof turns, &turns));
    FV_TRY(fv_cl_probe_run(d, k, items, group, NULL));
    for (turns = 1; turns <= most && seconds < effort->seconds; turns *= 2) {
        FV_TRY(fv_cl_probe_set(k, 1, sizeof turns, &turns));
        FV_TRY(fv_cl_probe_run(d, k, items, group, &seconds));
        *rate = effort->flops * turns * (double)items / (seconds > 1e-9 ? seconds : 1e-9);
    }
    return FOVEA_OK;
}

/* Bytes of `in` per second, by the shortest of some runs over so many of them that it takes long
 * enough, or all. */
static fovea_status measure_move(fv_device *d, cl_kernel k, cl_mem in, cl_mem out, uint64_t bytes,
                                 const struct effort *effort, double *rate)
{
    const size_t group = fv_cl_probe_group(d, k, FV_CL_PROBE_ITEMS), items = items_of(d, group);
    const uint64_t value = effort->floats * sizeof(cl_float), values = bytes / value;
    double shortest = 0;
    FV_TRY(fv_cl_probe_set(k, 0, sizeof in, &in));
    FV_TRY(fv_cl_probe_set(k, 1, sizeof out, &out));
    for (uint64_t n = values / 256; n <= values && shortest < effort->seconds; n *= 4) {
        const cl_uint count = (cl_uint)n;
        FV_TRY(fv_cl_probe_set(k, 2, sizeof count, &count));
        for (int i = 0; i < TRIES; i++) {
            double seconds = 0;
            FV_TRY(fv_cl_probe_run(d, k, items, group, &seconds));
            shortest = i == 0 || seconds < shortest ? seconds : shortest;
        }
        *rate = (double)(value * n) / (shortest > 1e-9 ? shortest : 1e-9);
    }
    return FOVEA_OK;
}

/* ---- the kernels ---- */

struct probes {
    cl_kernel compute, move, fetch; /* fetch NULL: rough */
    cl_mem from, to;
    uint64_t bytes; /* of each */
};

static fovea_status make_buffer(cl_mem *out, const fv_device *d, uint64_t bytes)
{
    cl_int error;
    cl_mem buffer =
        fv_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateBuffer", "measuring the memory");
    *out = buffer;
    return FOVEA_OK;
}

static uint64_t bytes_for(const fv_device *d, const struct effort *effort)
{
    uint64_t bytes = effort->bytes;
    while (bytes > 1 << 20 && (bytes > d->limits.largest || bytes > d->limits.memory / 16))
        bytes /= 2;
    return bytes;
}

static fovea_status make_probes(struct probes *p, fv_device *d, const struct effort *effort)
{
    char options[80];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -w -DFV_PROBE=%d%s", effort->which,
             effort == &best_of_cpu ? " -DFV_PROBE_CPU" : "");
    p->bytes = bytes_for(d, effort);
    FV_TRY(fv_cl_plain_kernel(&p->compute, d, "probe", "compute", options));
    FV_TRY(fv_cl_plain_kernel(&p->move, d, "probe", "move", options));
    if (effort != &rough)
        FV_TRY(fv_cl_plain_kernel(&p->fetch, d, "probe", "fetch", options));
    FV_TRY(make_buffer(&p->from, d, p->bytes));
    return make_buffer(&p->to, d, p->bytes);
}

static void free_probes(struct probes *p, fv_device *d)
{
    const cl_kernel kernels[] = {p->compute, p->move, p->fetch};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i] && !d->hung)
            fv_cl.clReleaseKernel(kernels[i]);
    fv_cl_buffer_free(d, p->from);
    fv_cl_buffer_free(d, p->to);
}

static fovea_status measure(fovea_rates *out, fv_device *d, const struct effort *effort)
{
    struct probes p = {.bytes = 0};
    fovea_rates r = {0};
    fovea_status status = make_probes(&p, d, effort);
    if (status == FOVEA_OK)
        status = measure_compute(d, p.compute, p.to, effort, &r.flops);
    if (status == FOVEA_OK && p.fetch) /* so that there is something to read */
        status = measure_move(d, p.move, p.to, p.from, p.bytes, effort, &r.copy);
    if (status == FOVEA_OK)
        status = measure_move(d, p.move, p.from, p.to, p.bytes, effort, &r.copy);
    if (status == FOVEA_OK && p.fetch)
        status = measure_move(d, p.fetch, p.from, p.to, p.bytes, effort, &r.read);
    free_probes(&p, d);
    r.copy *= 2; /* there and back */
    *out = r;
    return status;
}

fovea_status fv_cl_rates_best(fv_device *d, fovea_rates *out)
{
    FV_TRY(fv_cl_ready(d));
    return measure(out, d, d->limits.vectors ? &best_of_cpu : &best);
}

/* Down to a power of 4: what is cut by it changes the order of sums, and should not change with
 * every measurement. */
static double coarse(double rate)
{
    double power = 1e6;
    while (power * 4 <= rate)
        power *= 4;
    return power;
}

fv_cl_rates fv_cl_measure(fv_device *d)
{
    pthread_mutex_lock(&d->lock);
    const bool done = d->rates.flops > 0;
    pthread_mutex_unlock(&d->lock);
    fovea_rates now = {0};
    if (!done && measure(&now, d, &rough) != FOVEA_OK)
        now = (fovea_rates){0}; /* what is not known counts as slow */
    pthread_mutex_lock(&d->lock);
    if (d->rates.flops <= 0) {
        d->rates.flops = coarse(now.flops);
        d->rates.bytes = coarse(now.copy);
    }
    const fv_cl_rates known = d->rates;
    pthread_mutex_unlock(&d->lock);
    return known;
}
