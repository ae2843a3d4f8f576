/* gpu_meter.c: measures the rates of a device: approximate ones, which decide where dispatches are
 * cut, and peak rates, which are reported. */
#include "gpu/gpu_meter.h"

#include <string.h>

/* How much work a measurement does. */
struct effort {
    double seconds; /* of a run, about */
    /* Most bytes in a buffer; for a kernel that needs only one buffer, bytes after its results. */
    uint64_t bytes;
    /* For the kernels of probe.cl: */
    int which;       /* FV_PROBE_* */
    uint32_t floats; /* of a value */
    double flops;    /* floating-point operations per work-item and iteration */
    int tries;       /* of which the shortest counts; a loaded machine delays most of them */
};

static const struct effort rough = {2e-3, UINT64_C(16) << 20, 5, 4, 2.0 * 64 * 4, 8};
static const struct effort of_half = {2e-3, 4 << 10, 8, 4, 2.0 * 64 * 4, 8};
static const struct effort of_dot = {2e-3, 4 << 10, 9, 4, 2.0 * 64 * 4, 8};
static const struct effort of_local = {2e-3, 4 << 10, 10, 4, 16, 8};
static const struct effort of_global = {2e-3, 4 << 10, 11, 4, 16, 8};
static const struct effort of_image = {2e-3, 4 << 10, 14, 4, 16, 8};
static const struct effort of_subgroups = {2e-3, 4 << 10, 15, 4, 2.0 * 128, 8};
static const struct effort of_staged = {2e-3, 4 << 10, 16, 4, 2.0 * 128, 8};
static const struct effort of_wide = {2e-3, 4 << 10, 17, 4, 2.0 * 16 * 6 * 16, 8};
static const struct effort best = {30e-3, UINT64_C(256) << 20, 7, 4, 2.0 * 128 * 4, 3};

enum {
    DOUBLINGS = 20,
    FEW_ITERATIONS = 1 << 10, /* for a device that ends long loops early */
};

/* ---- one rate ---- */

static size_t items_of(const fv_gpu_meter *m, size_t group)
{
    return group * 16 * (m->units ? m->units : 1);
}

/* Doubles the work until even the shortest of several runs takes long enough. The first run may be
 * longer, because other work delayed it or because some drivers compile at the first launch. */
static fovea_status measure_compute(const fv_gpu_meter *m, void *k, const uint64_t *buffer,
                                    uint32_t buffers, const struct effort *effort, double *rate)
{
    const size_t group = m->group(m->device, k), items = items_of(m, group);
    const uint32_t most = m->ends_long_loops ? FEW_ITERATIONS : 1u << DOUBLINGS;
    double seconds = 0, shortest = 0;
    FV_TRY(m->run(m->device, k, buffer, buffers, 0, items, group, &seconds));
    for (uint32_t iterations = 1; iterations <= most && shortest < effort->seconds;
         iterations *= 2) {
        for (int i = 0; i == 0 || (i < effort->tries && shortest >= effort->seconds); i++) {
            FV_TRY(m->run(m->device, k, buffer, buffers, iterations, items, group, &seconds));
            shortest = i == 0 || seconds < shortest ? seconds : shortest;
        }
        *rate = effort->flops * iterations * (double)items / (shortest > 1e-9 ? shortest : 1e-9);
    }
    return FOVEA_OK;
}

/* Bytes of `in` per second, by the shortest of several runs. A run covers enough bytes for a
 * measurable time, or all of them. */
static fovea_status measure_move(const fv_gpu_meter *m, void *k, uint64_t in, uint64_t out,
                                 uint64_t bytes, const struct effort *effort, double *rate)
{
    const size_t group = m->group(m->device, k), items = items_of(m, group);
    const uint64_t value = effort->floats * sizeof(float), values = bytes / value;
    const uint64_t buffer[2] = {in, out};
    double shortest = 0;
    for (uint64_t n = values / 256; n <= values && shortest < effort->seconds; n *= 4) {
        for (int i = 0; i < effort->tries; i++) {
            double seconds = 0;
            FV_TRY(m->run(m->device, k, buffer, 2, (uint32_t)n, items, group, &seconds));
            shortest = i == 0 || seconds < shortest ? seconds : shortest;
        }
        *rate = (double)(value * n) / (shortest > 1e-9 ? shortest : 1e-9);
    }
    return FOVEA_OK;
}

/* ---- the kernels ---- */

struct probes {
    void *compute, *move, *fetch; /* fetch NULL: rough */
    uint64_t from, to;
    uint64_t bytes; /* of each */
};

static uint64_t bytes_for(const fv_gpu_meter *m, const struct effort *effort)
{
    uint64_t bytes = effort->bytes;
    while (bytes > 1 << 20 && (bytes > m->largest || bytes > m->memory / 16))
        bytes /= 2;
    return bytes;
}

static fovea_status make_probes(struct probes *p, const fv_gpu_meter *m,
                                const struct effort *effort)
{
    p->bytes = bytes_for(m, effort);
    FV_TRY(m->kernel(&p->compute, m->device, "compute", effort->which));
    FV_TRY(m->kernel(&p->move, m->device, "move", effort->which));
    if (effort != &rough)
        FV_TRY(m->kernel(&p->fetch, m->device, "fetch", effort->which));
    FV_TRY(m->buffer(&p->from, m->device, p->bytes));
    return m->buffer(&p->to, m->device, p->bytes);
}

static void free_probes(struct probes *p, const fv_gpu_meter *m)
{
    void *const kernels[] = {p->compute, p->move, p->fetch};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i] && m->drop)
            m->drop(m->device, kernels[i]);
    m->release(m->device, p->from);
    m->release(m->device, p->to);
}

static fovea_status measure(fovea_rates *out, const fv_gpu_meter *m, const struct effort *effort)
{
    struct probes p = {.bytes = 0};
    fovea_rates r = {0};
    fovea_status status = make_probes(&p, m, effort);
    FV_THEN(status, measure_compute(m, p.compute, &p.to, 1, effort, &r.flops));
    if (p.fetch) /* initialises what fetch reads */
        FV_THEN(status, measure_move(m, p.move, p.to, p.from, p.bytes, effort, &r.copy));
    FV_THEN(status, measure_move(m, p.move, p.from, p.to, p.bytes, effort, &r.copy));
    if (p.fetch)
        FV_THEN(status, measure_move(m, p.fetch, p.from, p.to, p.bytes, effort, &r.read));
    free_probes(&p, m);
    r.copy *= 2; /* bytes read and written */
    r.bf16 = r.int8 = r.flops;
    *out = r;
    return status;
}

fovea_status fv_gpu_meter_best(const fv_gpu_meter *m, fovea_rates *out)
{
    return measure(out, m, &best);
}

/* Rounds down to a power of 4. Where dispatches are cut affects the order of sums, so it must not
 * vary with every measurement. */
static double coarse(double rate)
{
    double power = rate > 0 ? 1e6 : 0;
    while (power > 0 && power * 4 <= rate)
        power *= 4;
    return power;
}

/* ---- one kernel's rate relative to another's ---- */

static fovea_status run_alone(const fv_gpu_meter *m, void *k, const struct effort *effort,
                              double *rate)
{
    enum { OUT, IMAGE, TEXELS, ALL };
    const uint64_t results = items_of(m, m->group(m->device, k)) * sizeof(float);
    uint64_t buffer[ALL] = {0};
    fovea_status status = m->buffer(&buffer[OUT], m->device, results + effort->bytes);
    if (effort == &of_image) {
        FV_THEN(status, m->buffer(&buffer[TEXELS], m->device, effort->bytes));
        FV_THEN(status, m->image_of(&buffer[IMAGE], m->device, buffer[TEXELS], effort->bytes));
    }
    FV_THEN(status, measure_compute(m, k, buffer, buffer[IMAGE] ? 2 : 1, effort, rate));
    for (int i = 0; i < ALL; i++)
        if (buffer[i])
            m->release(m->device, buffer[i]);
    return status;
}

static double rate_alone(const fv_gpu_meter *m, const struct effort *effort)
{
    void *k;
    double rate = 0;
    if (m->kernel(&k, m->device, "compute", effort->which) != FOVEA_OK)
        return 0;
    const fovea_status status = run_alone(m, k, effort, &rate);
    if (m->drop)
        m->drop(m->device, k);
    return status == FOVEA_OK ? rate : 0;
}

/* The ratio of two rates, rounded down to quarters, because clocks vary too much for more; below a
 * quarter it is 1/8. 0 if either rate is unknown. */
static double ratio(double rate, double to)
{
    enum { STEPS = 4, MOST = 1 << 10 };
    const double r = to > 0 ? rate / to * STEPS : 0;
    if (r <= 0)
        return 0;
    return (r < 1 ? 0.5 : r < MOST ? (double)(int)r : MOST) / STEPS;
}

static void measure_ratios(double own[FV_GPU_RATES], const fv_gpu_meter *m, double flops)
{
    own[FV_GPU_HALF] = m->half ? ratio(rate_alone(m, &of_half), flops) : 0;
    own[FV_GPU_DOT] = m->dot ? ratio(rate_alone(m, &of_dot), flops) : 0;
    const double cached = m->local || m->image ? rate_alone(m, &of_global) : 0;
    own[FV_GPU_LOCAL] = m->local ? ratio(rate_alone(m, &of_local), cached) : 0;
    own[FV_GPU_IMAGE] = m->image ? ratio(rate_alone(m, &of_image), cached) : 0;
    own[FV_GPU_SUBGROUPS] =
        m->subgroups ? ratio(rate_alone(m, &of_subgroups), rate_alone(m, &of_staged)) : 0;
    own[FV_GPU_WIDE] = m->wide ? ratio(rate_alone(m, &of_wide), flops) : 0;
}

/* Another process may have measured in the meantime; if it has stored its rates, they are used. */
static fv_gpu_rates rates_now(const fv_gpu_meter *m)
{
    double kept[FV_GPU_RATES];
    fovea_rates now = {0};
    if (!fv_gpu_store_rates(m->store, kept)) {
        if (measure(&now, m, &rough) != FOVEA_OK) {
            fv_log("the rates of the device could not be measured: %s", fovea_error());
            return (fv_gpu_rates){.tried = true};
        }
        double own[FV_GPU_RATES] = {coarse(now.flops), coarse(now.copy)};
        measure_ratios(own, m, now.flops);
        if (!fv_gpu_store_rates(m->store, kept)) {
            fv_gpu_store_keep_rates(m->store, own);
            memcpy(kept, own, sizeof kept);
        }
    }
    return (fv_gpu_rates){.flops = kept[FV_GPU_FLOPS],
                          .bytes = kept[FV_GPU_BYTES],
                          .half = kept[FV_GPU_HALF],
                          .dot = kept[FV_GPU_DOT],
                          .local = kept[FV_GPU_LOCAL],
                          .image = kept[FV_GPU_IMAGE],
                          .subgroups = kept[FV_GPU_SUBGROUPS],
                          .wide = kept[FV_GPU_WIDE],
                          .tried = true};
}

fv_gpu_rates fv_gpu_meter_known(const fv_gpu_meter *m, fv_gpu_rates *known, pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    fv_gpu_rates out = *known;
    pthread_mutex_unlock(lock);
    if (out.tried)
        return out;
    out = rates_now(m);
    pthread_mutex_lock(lock);
    if (!known->tried)
        *known = out;
    out = *known;
    pthread_mutex_unlock(lock);
    return out;
}
