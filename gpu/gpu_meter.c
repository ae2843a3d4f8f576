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

/* A kernel that computes, with its arguments and the work of one run. */
struct computing {
    void *kernel;
    const uint64_t *buffer;
    uint32_t buffers, iterations;
    size_t items, group;
    double shortest; /* seconds of a run */
};

static fovea_status compute_once(const fv_gpu_meter *m, const struct computing *c,
                                 uint32_t iterations, double *seconds)
{
    return m->run(m->device, c->kernel, c->buffer, c->buffers, iterations, c->items, c->group,
                  seconds);
}

static fovea_status compute_again(const fv_gpu_meter *m, struct computing *c)
{
    double seconds = 0;
    FV_TRY(compute_once(m, c, c->iterations, &seconds));
    c->shortest = c->shortest > 0 && c->shortest < seconds ? c->shortest : seconds;
    return FOVEA_OK;
}

/* Whether a run takes long enough, and much longer than one that computes nothing: on a loaded
 * processor every run may wait for a time slice, longer than it computes. */
static fovea_status is_long(const fv_gpu_meter *m, struct computing *c, const struct effort *effort,
                            bool *is)
{
    enum { TIMES = 4 };
    double empty = 0;
    FV_TRY(compute_once(m, c, 0, &empty));
    FV_TRY(compute_again(m, c));
    *is = c->shortest >= effort->seconds && c->shortest >= TIMES * empty;
    return FOVEA_OK;
}

/* Doubles the iterations until a run takes long enough, twice, because other work may delay one
 * run. The very first run computes nothing, because some drivers compile at the first launch. */
static fovea_status compute_begin(const fv_gpu_meter *m, struct computing *c,
                                  const struct effort *effort)
{
    const uint32_t most = m->ends_long_loops ? FEW_ITERATIONS : 1u << DOUBLINGS;
    double seconds;
    c->group = m->group(m->device, c->kernel);
    c->items = items_of(m, c->group);
    FV_TRY(compute_once(m, c, 0, &seconds));
    for (c->iterations = 1;; c->iterations *= 2) {
        bool enough = true;
        c->shortest = 0;
        for (int i = 0; i < 2 && enough; i++)
            FV_TRY(is_long(m, c, effort, &enough));
        if (enough || c->iterations >= most)
            return FOVEA_OK;
    }
}

static double compute_rate(const struct computing *c, const struct effort *effort)
{
    const double seconds = c->shortest > 1e-9 ? c->shortest : 1e-9;
    return effort->flops * c->iterations * (double)c->items / seconds;
}

static fovea_status measure_compute(const fv_gpu_meter *m, void *k, const uint64_t *buffer,
                                    const struct effort *effort, double *rate)
{
    struct computing c = {.kernel = k, .buffer = buffer, .buffers = 1};
    FV_TRY(compute_begin(m, &c, effort));
    for (int i = 0; i < effort->tries; i++)
        FV_TRY(compute_again(m, &c));
    *rate = compute_rate(&c, effort);
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
    FV_THEN(status, measure_compute(m, p.compute, &p.to, effort, &r.flops));
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

enum { OUT, IMAGE, TEXELS, BUFFERS };

/* A kernel that is compared, and the memory that it uses. */
struct compared {
    const struct effort *effort;
    struct computing run;
    uint64_t buffer[BUFFERS];
};

static fovea_status compared_begin(struct compared *c, const fv_gpu_meter *m,
                                   const struct effort *effort)
{
    c->effort = effort;
    FV_TRY(m->kernel(&c->run.kernel, m->device, "compute", effort->which));
    const size_t items = items_of(m, m->group(m->device, c->run.kernel));
    FV_TRY(m->buffer(&c->buffer[OUT], m->device, items * sizeof(float) + effort->bytes));
    if (effort == &of_image) {
        FV_TRY(m->buffer(&c->buffer[TEXELS], m->device, effort->bytes));
        FV_TRY(m->image_of(&c->buffer[IMAGE], m->device, c->buffer[TEXELS], effort->bytes));
    }
    c->run.buffer = c->buffer;
    c->run.buffers = c->buffer[IMAGE] ? 2 : 1;
    return compute_begin(m, &c->run, effort);
}

static void compared_end(struct compared *c, const fv_gpu_meter *m)
{
    if (c->run.kernel && m->drop)
        m->drop(m->device, c->run.kernel);
    for (int i = 0; i < BUFFERS; i++)
        if (c->buffer[i])
            m->release(m->device, c->buffer[i]);
}

/* Runs two kernels alternately, so that other work on the machine delays both of them alike. */
static fovea_status alternate(const fv_gpu_meter *m, struct compared *a, struct compared *b)
{
    for (int i = 0; i < a->effort->tries; i++) {
        FV_TRY(compute_again(m, &a->run));
        FV_TRY(compute_again(m, &b->run));
    }
    return FOVEA_OK;
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

static double compare(const fv_gpu_meter *m, const struct effort *of, const struct effort *to)
{
    struct compared a = {.effort = NULL}, b = {.effort = NULL};
    fovea_status status = compared_begin(&a, m, of);
    FV_THEN(status, compared_begin(&b, m, to));
    FV_THEN(status, alternate(m, &a, &b));
    compared_end(&a, m);
    compared_end(&b, m);
    return status == FOVEA_OK ? ratio(compute_rate(&a.run, of), compute_rate(&b.run, to)) : 0;
}

static void measure_ratios(double own[FV_GPU_RATES], const fv_gpu_meter *m)
{
    const struct {
        bool measured;
        int of;
        const struct effort *effort, *to;
    } all[] = {
        {m->half, FV_GPU_HALF, &of_half, &rough},
        {m->dot, FV_GPU_DOT, &of_dot, &rough},
        {m->local, FV_GPU_LOCAL, &of_local, &of_global},
        {m->image, FV_GPU_IMAGE, &of_image, &of_global},
        {m->subgroups, FV_GPU_SUBGROUPS, &of_subgroups, &of_staged},
        {m->wide, FV_GPU_WIDE, &of_wide, &rough},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        own[all[i].of] = all[i].measured ? compare(m, all[i].effort, all[i].to) : 0;
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
        measure_ratios(own, m);
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
