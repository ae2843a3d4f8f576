/* cpu_backend.c: the CPU as a device: kernels are called directly, buffers are host memory. */
#include "platform/cpu/cpu_backend.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/thread.h"
#include "device/sweep_calls.h"
#include "ops/extension.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/cpu_rates.h"
#include "platform/os/os_machine.h"

const fv_kernel_hooks fv_h_none = {0};

static const fv_kernel kernel_list[] = {
#define FV_CPU_KERNEL(OP, MECH, kname, NEED, krev, khooks)                                         \
    {FV_KERNEL_LINE(OP, MECH, kname, NEED, krev, khooks), .code.cpu = fv_k_##kname},
#include "platform/cpu/cpu_kernels.inc"
#undef FV_CPU_KERNEL
};

struct fv_device {
    uint32_t features;
    bool lock; /* whether the memory that frames use is locked in RAM */
    fv_pool *pool;
};

struct external {
    char *base;
    uint64_t stride;
};

/* The number of frames that may be submitted and not yet waited for. A frame is computed only when
 * the caller waits for it, and the caller may submit the next one before that. */
#define FRAMES 2

struct frame {
    struct external *external;
    const fv_sweep *sweep;
    uint32_t sweeps;
    fv_portion most;
};

struct fv_queue {
    fv_device *device;
    char *scratch; /* scratch memory of the kernels, a part for each worker */
    uint64_t scratch_bytes;
    struct frame frame[FRAMES]; /* frame f is at index f % FRAMES */
    fv_fence submitted, done;
    uint32_t slots;
    /* The following fields describe the frame that is being computed. */
    struct external *external;
    fv_portion most;
    uint32_t *units; /* number of units of each phase */
    struct phase {
        const fv_sweep *sweep;
        uint32_t step; /* the step to run, if steps run one by one */
        bool saves;    /* a phase before the sweep that saves the borders of its units */
    } * phase;
    uint32_t phases, phase_capacity;
    double begin;
    fv_trace *trace; /* or NULL */
};

const fv_kernel *fv_cpu_own_kernels(int *count)
{
    *count = (int)(sizeof kernel_list / sizeof *kernel_list);
    return kernel_list;
}

const fv_kernel *fv_cpu_kernels(int *count)
{
    const fv_extension *e = fv_extension_added();
    if (!e)
        return fv_cpu_own_kernels(count);
    *count = e->cpu_kernels;
    return e->cpu_kernel;
}

/* ---- device ---- */

static void fill_info(fovea_device_info *out, uint32_t features)
{
    memset(out, 0, sizeof *out);
    snprintf(out->id, sizeof out->id, "cpu");
    fv_machine_cpu_name(out->name, sizeof out->name);
    snprintf(out->features, sizeof out->features, "%s", fv_cpu_level_name(features));
    fv_cores cores;
    fv_cores_find(&cores);
    out->units = cores.n;
    fv_cpu_core_kinds(&out->core_kinds, &out->performance_cores, &cores);
    out->memory = fv_machine_memory();
    out->bf16 = (features & FV_CPU_BF16) != 0;
    out->int8 = (features & FV_CPU_INT8) != 0;
}

static size_t probe(size_t index, fovea_device_info *out)
{
    if (index == 0)
        fill_info(out, fv_cpu_fast_features(fv_cpu_features()));
    return 1;
}

static void close_device(fv_device *d)
{
    fv_pool_free(d->pool);
    fv_mem_free(d);
}

/* Refuses options that no operating system supports. */
static fovea_status check_options(const fovea_device_options *o)
{
    if (o->parallel_for && !o->threads)
        return fv_fail(FOVEA_EINVAL, "parallel_for is set, but `threads` is 0; set `threads` to "
                                     "the number of calls that may overlap");
    if (o->threads > FV_PROCESSORS)
        return fv_fail(FOVEA_EINVAL, "%u threads are too many; use at most %u", o->threads,
                       (unsigned)FV_PROCESSORS);
    if (o->priority > 99)
        return fv_fail(FOVEA_EINVAL, "`priority` is %u; choose 1 to 99, or 0 for the default",
                       o->priority);
    if (o->thread_name && strlen(o->thread_name) > 10)
        return fv_fail(FOVEA_EINVAL, "thread name '%.40s' is too long; use at most 10 characters",
                       o->thread_name);
    return FOVEA_OK;
}

static fovea_status open_device(fv_device **out, const char *which,
                                const fovea_device_options *options)
{
    (void)which;
    uint32_t features, cpus[FV_PROCESSORS], n_cpus;
    fv_cores cores;
    FV_TRY(check_options(options));
    FV_TRY(fv_cpu_level(&features, options->isa));
    fv_cores_find(&cores);
    FV_TRY(fv_cpu_cores(cpus, &n_cpus, &cores, options->cores));
    const fv_pool_settings pool = {
        /* The cgroup's quota caps only the default number of threads, not one that the caller asks
         * for. */
        .threads = options->threads ? options->threads : fv_min_u32(cores.most, n_cpus),
        .cpus = cpus,
        .n_cpus = n_cpus,
        .parallel_for = options->parallel_for,
        .ctx = options->parallel_ctx,
        .name = options->thread_name,
        .priority = options->priority,
        .lock = options->lock_memory != 0,
    };
    fv_device *d;
    FV_TRY(FV_MEM_NEW(&d, FV_MEM_DEVICE, "the device"));
    d->features = features;
    d->lock = pool.lock;
    FV_RETURN_MADE(out, d, close_device, fv_pool_create(&d->pool, &pool));
}

static void describe(const fv_device *d, fovea_device_info *out)
{
    fill_info(out, d->features);
}

static const char *status(void)
{
#ifdef FV_NO_PORTABLE
    return "cpu: references and the vector levels of this architecture";
#else
    return "cpu: portable C and the vector levels of this architecture";
#endif
}

static void limits(const fv_device *d, fv_limits *out)
{
    *out = (fv_limits){.threads = fv_pool_threads(d->pool),
                       .locked = d->lock,
                       .frames = FRAMES,
                       .largest = UINT64_MAX,
                       .rows = UINT32_MAX,
                       .half_sums = d->features & FV_NEED_NEON_FP16,
                       .bf16 = (d->features & FV_CPU_BF16) != 0,
                       .int8 = (d->features & FV_CPU_INT8) != 0,
                       .int8_attention = true};
}

static fovea_status alloc(fv_device *d, uint64_t size, const char *what, fv_mem *out)
{
    FV_TRY(fv_mem_place(&out->host, size, FV_MEM_ARENA, what, d->lock));
    out->size = size;
    return FOVEA_OK;
}

static void release(fv_device *d, fv_mem *m)
{
    (void)d;
    fv_mem_free(m->host);
    m->host = NULL;
}

static fovea_status write_memory(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    (void)d;
    if (src)
        memcpy(m->host, src, (size_t)size);
    else
        memset(m->host, 0, (size_t)size);
    return FOVEA_OK;
}

static fovea_status read_memory(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
{
    (void)d;
    memcpy(dst, m->host, (size_t)size);
    return FOVEA_OK;
}

static const fv_kernel *kernels(fv_device *d, int *count, uint32_t *features)
{
    *features = d ? d->features : fv_cpu_features();
    return fv_cpu_kernels(count);
}

static fovea_status bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    (void)d;
    fv_bound *b;
    FV_TRY(FV_MEM_NEW(&b, FV_MEM_PLAN, "a step"));
    b->l = *l;
    *out = b;
    return FOVEA_OK;
}

static void unbind(fv_device *d, fv_bound *b)
{
    (void)d;
    fv_mem_free(b);
}

/* ---- queue ---- */

static void queue_close(fv_queue *q)
{
    if (!q)
        return;
    fv_mem_free(q->scratch);
    for (int i = 0; i < FRAMES; i++)
        fv_mem_free(q->frame[i].external);
    fv_mem_free(q->units);
    fv_mem_free(q->phase);
    fv_mem_free(q);
}

static fovea_status queue_arrays(fv_queue *q)
{
    FV_TRY(fv_mem_place(&q->scratch,
                        fv_size_mul(fv_pool_threads(q->device->pool), q->scratch_bytes),
                        FV_MEM_ARENA, "the kernels' scratch", q->device->lock));
    for (int i = 0; i < FRAMES; i++)
        FV_TRY(FV_MEM_ARRAY(&q->frame[i].external, q->slots, FV_MEM_PLAN, "the queue"));
    FV_TRY(FV_MEM_ARRAY(&q->units, q->phase_capacity, FV_MEM_PLAN, "the queue"));
    FV_TRY(FV_MEM_ARRAY(&q->phase, q->phase_capacity, FV_MEM_PLAN, "the queue"));
    return FOVEA_OK;
}

static fovea_status queue_open(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                               uint32_t phases, fv_queue **out)
{
    (void)slot; /* nothing to release: after a frame no memory of the caller is used */
    fv_queue *q;
    FV_TRY(FV_MEM_NEW(&q, FV_MEM_PLAN, "the queue"));
    q->device = d;
    q->scratch_bytes = scratch;
    q->slots = slots;
    q->phase_capacity = phases;
    FV_RETURN_MADE(out, q, queue_close, queue_arrays(q));
}

static fovea_status place_external(fv_queue *q, uint32_t slot, char *p, uint64_t stride)
{
    q->frame[(q->submitted + 1) % FRAMES].external[slot] = (struct external){p, stride};
    return FOVEA_OK;
}

static fovea_status upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    /* Nothing is copied: kernels read the caller's memory. The cast drops a const that no kernel
     * violates, because an external input is never the output operand of a step. */
    return place_external(q, slot, (char *)(uintptr_t)src, stride);
}

static fovea_status download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    return place_external(q, slot, dst, stride);
}

static fovea_status submit(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out)
{
    struct frame *f = &q->frame[++q->submitted % FRAMES];
    f->sweep = s;
    f->sweeps = count;
    f->most = most;
    *out = q->submitted;
    return FOVEA_OK;
}

/* ---- one call ---- */

static char *operand(const fv_queue *q, const fv_launch *l, uint32_t o, char *block,
                     const fv_call_place *at, uint32_t row0, uint32_t group)
{
    const fv_operand *op = &l->operand[o];
    char *base;
    switch (op->ref.space) {
    case FV_SPACE_BUFFER:
        if (op->border && (row0 < at->own.first || row0 >= at->own.end))
            return (char *)op->saved.mem->host + op->saved.offset +
                   fv_sweep_calls_saved_row(op, row0, at) * op->stride;
        base = (char *)op->ref.mem->host + op->ref.offset;
        break;
    case FV_SPACE_LOCAL: /* the rows of this chunk, from its first; or a ring of rows; or rows of a
                            band */
        base = block + op->ref.offset;
        if (op->band) {
            const int64_t from = op->kind == FV_KIND_ROW ? row0 : 0;
            return base + (from - op->band[group].first) * (int64_t)l->args.ld[o] *
                              (int64_t)fv_type_size(op->type);
        }
        if (op->ring && op->kind == FV_KIND_ROW)
            base += fv_sweep_calls_ring_row(op, row0, at->width) * l->args.ld[o] *
                    fv_type_size(op->type);
        return base;
    case FV_SPACE_EXTERNAL:
        base = q->external[op->ref.slot].base + op->ref.offset;
        break;
    default:
        return NULL;
    }
    if (op->kind == FV_KIND_ROW)
        base += (uint64_t)row0 * l->args.ld[o] * fv_type_size(op->type);
    if (op->kind == FV_KIND_PARTIAL)
        base += group * op->stride;
    return base;
}

struct worker {
    const fv_queue *q;
    uint32_t slot;
    char *block; /* memory for the operands that exist only inside the sweep */
};

static void trace_call(const struct worker *w, const fv_launch *l, const fv_call *c, double begin)
{
    fovea_trace_event *e = fv_trace_next(w->q->trace);
    if (e)
        *e = (fovea_trace_event){.step = l->index,
                                 .worker = w->slot,
                                 .row = c->row0,
                                 .rows = c->rows,
                                 .begin = begin - w->q->begin,
                                 .end = fv_machine_seconds() - w->q->begin};
}

static void call(void *ctx, fv_bound *step, const fv_call_place *at, fv_call *c)
{
    const struct worker *w = ctx;
    const fv_queue *q = w->q;
    const fv_launch *l = &step->l;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        c->p[o] = operand(q, l, o, w->block, at, c->row0, c->group);
    c->scratch = q->scratch + w->slot * q->scratch_bytes;
    const double begin = q->trace ? fv_machine_seconds() : 0;
    l->kernel->code.cpu(&l->args, c);
    if (q->trace)
        trace_call(w, l, c, begin);
}

static void save_border(const fv_operand *op, fv_rows own, uint32_t unit)
{
    const size_t bytes = (size_t)(op->border * op->stride);
    const char *from = (char *)op->ref.mem->host + op->ref.offset;
    char *to = (char *)op->saved.mem->host + op->saved.offset + 2 * (size_t)unit * bytes;
    memcpy(to, from + own.first * op->stride, bytes);
    memcpy(to + bytes, from + (own.end - op->border) * op->stride, bytes);
}

/* Saves the rows at both ends of a unit, for every frame of a batch. The neighbouring units need
 * them, and may run after this unit has overwritten them. */
static void save_borders(const fv_sweep *s, uint32_t unit, uint32_t batch)
{
    const fv_rows own = fv_sweep_calls_own(s->rows, s->chunk, s->groups, s->runs, unit);
    for (uint32_t f = 0; f < batch; f++)
        for (uint32_t k = 0; k < s->steps; k++)
            for (uint32_t o = 0; o < FV_OPERANDS; o++) {
                const fv_operand *op = &s->step[f * s->frame_stride + k]->l.operand[o];
                if (op->border)
                    save_border(op, own, unit);
            }
}

static void run_unit(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    struct worker w = {arg, slot, NULL};
    const struct phase *at = &w.q->phase[phase];
    const fv_sweep *s = at->sweep;
    if (s->block)
        w.block = (char *)s->blocks.mem->host + s->blocks.offset + slot * s->block;
    if (at->saves)
        save_borders(s, unit, fv_sweep_calls_batch(s, w.q->most));
    else
        fv_sweep_calls_unit(s, at->step, unit, w.q->most, call, (void *)(uintptr_t)&w);
}

/* Sets the row strides of those operands that are in the caller's memory, if the caller gave
 * strides. */
static void place_rows(const fv_queue *q, fv_launch *l)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_operand *op = &l->operand[o];
        if (op->ref.space == FV_SPACE_EXTERNAL && q->external[op->ref.slot].stride)
            l->args.ld[o] = (uint32_t)(q->external[op->ref.slot].stride / fv_type_size(op->type));
    }
}

static void run_frame(fv_queue *q, const struct frame *f)
{
    q->external = f->external;
    q->most = f->most;
    q->phases = 0;
    for (uint32_t i = 0; i < f->sweeps; i++) {
        const fv_sweep *s = &f->sweep[i];
        if (s->saves) {
            q->units[q->phases] = s->runs;
            q->phase[q->phases++] = (struct phase){.sweep = s, .saves = true};
        }
        for (uint32_t k = 0; k < s->steps; k++) {
            for (uint32_t n = 0; n < fv_sweep_calls_batch(s, f->most); n++)
                place_rows(q, &s->step[n * s->frame_stride + k]->l);
            if (s->streamed && k > 0)
                continue;
            q->units[q->phases] = fv_sweep_calls_units(s, k, f->most);
            q->phase[q->phases++] = (struct phase){.sweep = s, .step = k};
        }
    }
    fv_job job = {.fn = run_unit, .arg = q, .units = q->units, .phases = q->phases};
    fv_pool_run(q->device->pool, &job);
}

static fovea_status wait(fv_queue *q, fv_fence f, double timeout, double *seconds)
{
    (void)timeout; /* no limit is needed: the wait itself does the work, on this thread and the pool
                    */
    *seconds = 0;
    while (q->done < f) {
        q->begin = fv_machine_seconds();
        if (q->trace)
            q->trace->used = 0;
        run_frame(q, &q->frame[++q->done % FRAMES]);
        *seconds = fv_machine_seconds() - q->begin;
    }
    return FOVEA_OK;
}

static fovea_status trace(fv_queue *q, fv_trace *t)
{
    q->trace = t;
    return FOVEA_OK;
}

static fovea_status rates(fv_device *d, fovea_rates *out)
{
    return fv_cpu_rates(d->pool, d->features, out);
}

static void spread(fv_device *d, uint32_t units, fv_unit_fn fn, void *arg)
{
    fv_job job = {.fn = fn, .arg = arg, .units = &units, .phases = 1};
    if (units > 0)
        fv_pool_run(d->pool, &job);
}

const fv_backend fv_backend_cpu = {
    .name = "cpu",
    .abi = FV_BACKEND_ABI,
    .probe = probe,
    .status = status,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .limits = limits,
    .alloc = alloc,
    .release = release,
    .write = write_memory,
    .read = read_memory,
    .kernels = kernels,
    .level = fv_cpu_level_name,
    .bind = bind,
    .unbind = unbind,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .upload = upload,
    .submit = submit,
    .download = download,
    .wait = wait,
    .trace = trace,
    .rates = rates,
    .spread = spread,
};
