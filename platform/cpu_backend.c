/* cpu_backend.c: the CPU as a device: kernels are called directly, buffers are host memory. */
#include "cpu_backend.h"

#include <stdio.h>
#include <string.h>

#include "cpu_kernels.h"
#include "mem.h"
#include "thread.h"

const fv_kernel_hooks fv_h_none = {0};

static const fv_kernel kernel_list[] = {
#define FV_CPU_KERNEL(OP, MECH, kname, NEED, krev, khooks)                                         \
    {.name = #kname,                                                                               \
     .op = FV_OP_##OP,                                                                             \
     .mech = FV_MECH_##MECH,                                                                       \
     .rev = krev,                                                                                  \
     .needs = FV_NEED_##NEED,                                                                      \
     .hooks = &fv_h_##khooks,                                                                      \
     .code.cpu = fv_k_##kname},
#include "cpu_kernels.inc"
#undef FV_CPU_KERNEL
};

struct fv_device {
    uint32_t features;
    fv_pool *pool;
};

struct fv_bound {
    fv_launch l;
};

struct external {
    char *base;
    uint64_t stride;
};

struct fv_queue {
    fv_device *device;
    char *blocks; /* one per worker: values of a sweep, kernel scratch */
    uint64_t block;
    struct external *external;
    uint32_t slots;
    uint32_t *units; /* per phase */
    struct phase {
        const fv_sweep *sweep;
        uint32_t step; /* stepwise: which one */
    } * phase;
    uint32_t phases, phase_room;
    uint32_t rows; /* of this frame, at most */
    fv_fence fence;
    bool pending;
};

const fv_kernel *fv_cpu_kernels(int *count)
{
    *count = (int)(sizeof kernel_list / sizeof *kernel_list);
    return kernel_list;
}

/* ---- device ---- */

static void fill_info(fovea_device_info *out, uint32_t features)
{
    memset(out, 0, sizeof *out);
    snprintf(out->id, sizeof out->id, "cpu");
    fv_machine_cpu_name(out->name, sizeof out->name);
    snprintf(out->features, sizeof out->features, "%s", fv_cpu_level_name(features));
    fv_cpu_clusters(&out->clusters, &out->big, &out->units);
    out->memory = fv_machine_memory();
}

static int probe(fovea_device_info *out, int max)
{
    if (max > 0)
        fill_info(out, fv_cpu_features());
    return 1;
}

static void close_device(fv_device *d)
{
    fv_pool_free(d->pool);
    fv_mem_free(d);
}

static fovea_status open_device(fv_device **out, int index, const fovea_device_options *options)
{
    (void)index;
    uint32_t features, cpus[FV_PROCESSORS], n_cpus;
    FV_TRY(fv_cpu_level(&features, options->isa));
    FV_TRY(fv_cpu_cores(cpus, &n_cpus, options->cores));
    uint32_t threads = options->threads ? options->threads : n_cpus;
    if (options->parallel_for && !options->threads)
        return fv_fail(FOVEA_EINVAL, "parallel_for needs `threads`: the calls that may overlap");
    if (threads > FV_PROCESSORS)
        return fv_fail(FOVEA_EINVAL, "%u threads are too many; use at most %u", threads,
                       (unsigned)FV_PROCESSORS);
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_device), FV_MEM_DEVICE, "the device"));
    fv_device *d = memory;
    d->features = features;
    fovea_status status = fv_pool_create(&d->pool, threads, cpus, n_cpus, options->parallel_for,
                                         options->parallel_ctx);
    if (status != FOVEA_OK) {
        close_device(d);
        return status;
    }
    *out = d;
    return FOVEA_OK;
}

static void describe(const fv_device *d, fovea_device_info *out)
{
    fill_info(out, d->features);
}

static uint32_t threads(const fv_device *d)
{
    return fv_pool_threads(d->pool);
}

static fovea_status alloc(fv_device *d, uint64_t size, const char *what, fv_mem *out)
{
    (void)d;
    FV_TRY(fv_mem_alloc(&out->host, size, FV_MEM_ARENA, what));
    out->size = size;
    return FOVEA_OK;
}

static void release(fv_device *d, fv_mem *m)
{
    (void)d;
    fv_mem_free(m->host);
    m->host = NULL;
}

static fovea_status write(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    (void)d;
    if (src)
        memcpy(m->host, src, (size_t)size);
    else
        memset(m->host, 0, (size_t)size);
    return FOVEA_OK;
}

static fovea_status read(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
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
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_bound), FV_MEM_PLAN, "a step"));
    fv_bound *b = memory;
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
    fv_mem_free(q->blocks);
    fv_mem_free(q->external);
    fv_mem_free(q->units);
    fv_mem_free(q->phase);
    fv_mem_free(q);
}

static fovea_status queue_arrays(fv_queue *q)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, fv_pool_threads(q->device->pool), q->block, FV_MEM_ARENA,
                        "the workers' chunks"));
    q->blocks = memory;
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof *q->external, FV_MEM_PLAN, "the queue"));
    q->external = memory;
    FV_TRY(fv_mem_array(&memory, q->phase_room, sizeof *q->units, FV_MEM_PLAN, "the queue"));
    q->units = memory;
    FV_TRY(fv_mem_array(&memory, q->phase_room, sizeof *q->phase, FV_MEM_PLAN, "the queue"));
    q->phase = memory;
    return FOVEA_OK;
}

static fovea_status queue_open(fv_device *d, uint64_t local, uint32_t slots, uint32_t phases,
                               fv_queue **out)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_queue), FV_MEM_PLAN, "the queue"));
    fv_queue *q = memory;
    q->device = d;
    q->block = local;
    q->slots = slots;
    q->phase_room = phases;
    fovea_status status = queue_arrays(q);
    if (status != FOVEA_OK) {
        queue_close(q);
        return status;
    }
    *out = q;
    return FOVEA_OK;
}

static fovea_status place_external(fv_queue *q, uint32_t slot, char *p, uint64_t stride)
{
    q->external[slot] = (struct external){p, stride};
    return FOVEA_OK;
}

static fovea_status upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    /* Nothing is copied: kernels read the caller's memory. The cast drops a const that no kernel
     * violates, because external inputs are never an output operand. */
    return place_external(q, slot, (char *)(uintptr_t)src, stride);
}

static fovea_status download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    return place_external(q, slot, dst, stride);
}

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

static bool grouped(const fv_bound *b)
{
    return fv_op_table[b->l.args.prob.op].span == FV_SPAN_REDUCE;
}

static uint32_t rows_of(const fv_queue *q, uint32_t planned)
{
    return planned < q->rows ? planned : q->rows;
}

static fovea_status submit(fv_queue *q, const fv_sweep *s, uint32_t count, uint32_t rows,
                           fv_fence *out)
{
    q->phases = 0;
    q->rows = rows;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < s[i].steps; k++) {
            fv_launch *l = &s[i].step[k]->l;
            for (uint32_t o = 0; o < FV_OPERANDS; o++) {
                const fv_operand *op = &l->operand[o];
                if (op->ref.space == FV_SPACE_EXTERNAL && q->external[op->ref.slot].stride)
                    l->args.ld[o] = (uint32_t)(q->external[op->ref.slot].stride / op->elem);
            }
            if (s[i].streamed && k > 0)
                continue;
            uint32_t units =
                ceil_div(rows_of(q, l->rows), l->tile_rows) * ceil_div(l->cols, l->tile_cols);
            if (s[i].streamed || grouped(s[i].step[k]))
                units = s[i].streamed ? s[i].runs : s[i].groups;
            q->units[q->phases] = units;
            q->phase[q->phases++] = (struct phase){&s[i], k};
        }
    }
    q->pending = true;
    *out = ++q->fence;
    return FOVEA_OK;
}

/* ---- one call ---- */

/* `width`: of the grid, in a sweep of bands. */
static char *operand(const fv_queue *q, const fv_launch *l, uint32_t o, char *block, uint32_t row0,
                     uint32_t width, uint32_t group)
{
    const fv_operand *op = &l->operand[o];
    char *base;
    switch (op->ref.space) {
    case FV_SPACE_BUFFER:
        base = (char *)op->ref.mem->host + op->ref.offset;
        break;
    case FV_SPACE_LOCAL: /* the rows of this chunk, from its first; or a ring */
        base = block + op->ref.offset;
        if (op->ring && op->kind == FV_KIND_ROW)
            base +=
                (uint64_t)(row0 / width + op->shift) % op->ring * width * l->args.ld[o] * op->elem;
        return base;
    case FV_SPACE_EXTERNAL:
        base = q->external[op->ref.slot].base + op->ref.offset;
        break;
    default:
        return NULL;
    }
    if (op->kind == FV_KIND_ROW)
        base += (uint64_t)row0 * l->args.ld[o] * op->elem;
    if (op->kind == FV_KIND_PARTIAL)
        base += group * op->stride;
    return base;
}

static void call(const fv_queue *q, const fv_launch *l, uint32_t slot, uint32_t width, fv_call *c)
{
    char *block = q->blocks + slot * q->block;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        c->p[o] = operand(q, l, o, block, c->row0, width, c->group);
    c->scratch = block + l->scratch;
    l->kernel->code.cpu(&l->args, c);
}

/* All steps [first, first + count) of a sweep for the chunks of one group. */
static void run_group(const fv_queue *q, const fv_sweep *s, uint32_t first, uint32_t count,
                      uint32_t group, uint32_t slot)
{
    uint32_t all = rows_of(q, s->rows), chunks = ceil_div(all, s->chunk);
    uint32_t begin = (uint32_t)((uint64_t)group * chunks / s->groups);
    uint32_t end = (uint32_t)((uint64_t)(group + 1) * chunks / s->groups);
    for (uint32_t chunk = begin; chunk < end; chunk++) {
        uint32_t row0 = chunk * s->chunk;
        uint32_t rows = all - row0 < s->chunk ? all - row0 : s->chunk;
        for (uint32_t k = first; k < first + count; k++) {
            const fv_launch *l = &s->step[k]->l;
            fv_call c = {.row0 = row0,
                         .rows = rows,
                         .cols = l->cols,
                         .group = group,
                         .first = chunk == begin};
            call(q, l, slot, 0, &c);
        }
    }
}

/* Grid rows from `line` on, at most `lines`, that lie together in every ring. */
static uint32_t together(const fv_launch *l, uint32_t line, uint32_t lines)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_operand *op = &l->operand[o];
        if (!op->ring || op->kind != FV_KIND_ROW)
            continue;
        const uint32_t left = op->ring - (line + op->shift) % op->ring;
        lines = lines < left ? lines : left;
    }
    return lines;
}

/* The groups of one unit of a sweep of bands. */
static void run_bands(const fv_queue *q, const fv_sweep *s, uint32_t run, uint32_t slot)
{
    const uint32_t chunks = ceil_div(s->rows, s->chunk);
    uint32_t group = (uint32_t)((uint64_t)run * s->groups / s->runs);
    const uint32_t last = (uint32_t)((uint64_t)(run + 1) * s->groups / s->runs);
    const int64_t band = s->chunk / s->width, height = s->rows / s->width;
    const int64_t begin = (int64_t)((uint64_t)group * chunks / s->groups) * band;
    const int64_t stop = (int64_t)((uint64_t)last * chunks / s->groups) * band;
    const int64_t end = stop < height ? stop : height;
    bool first = true;
    /* Some bands before the first one bring the steps that run ahead to where they should be. */
    for (int64_t y = begin - (2 * (int64_t)s->reach + band - 1) / band * band; y < end; y += band) {
        if (y >= begin && (uint64_t)(y / band) >= (uint64_t)(group + 1) * chunks / s->groups) {
            group++;
            first = true;
        }
        for (uint32_t k = 0; k < s->steps; k++) {
            const fv_launch *l = &s->step[k]->l;
            const int64_t ahead = l->ahead, from = begin - ahead > 0 ? begin - ahead : 0;
            int64_t line = y + ahead > from ? y + ahead : from;
            int64_t to = (y + band < end ? y + band : end) + ahead;
            to = to < height ? to : height;
            for (uint32_t n; line < to; line += n) {
                n = together(l, (uint32_t)line, (uint32_t)(to - line));
                fv_call c = {.row0 = (uint32_t)line * s->width,
                             .rows = n * s->width,
                             .cols = l->cols,
                             .group = group,
                             .first = first && line == y};
                call(q, l, slot, s->width, &c);
            }
        }
        first = first && y < begin;
    }
}

static void run_tile(const fv_queue *q, const fv_launch *l, uint32_t unit, uint32_t slot)
{
    uint32_t across = ceil_div(l->cols, l->tile_cols), rows = rows_of(q, l->rows);
    uint32_t row0 = unit / across * l->tile_rows, col0 = unit % across * l->tile_cols;
    fv_call c = {.row0 = row0,
                 .rows = rows - row0 < l->tile_rows ? rows - row0 : l->tile_rows,
                 .col0 = col0,
                 .cols = l->cols - col0 < l->tile_cols ? l->cols - col0 : l->tile_cols,
                 .first = 1};
    call(q, l, slot, 0, &c);
}

static void run_unit(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const fv_queue *q = arg;
    const fv_sweep *s = q->phase[phase].sweep;
    uint32_t k = q->phase[phase].step;
    if (s->streamed && s->width)
        run_bands(q, s, unit, slot);
    else if (s->streamed)
        run_group(q, s, 0, s->steps, unit, slot);
    else if (grouped(s->step[k]))
        run_group(q, s, k, 1, unit, slot);
    else
        run_tile(q, &s->step[k]->l, unit, slot);
}

static fovea_status wait(fv_queue *q, fv_fence f, double timeout, double *seconds)
{
    (void)timeout; /* the work is done here, by this thread and the pool: it needs no bound */
    if (!q->pending || f != q->fence) {
        *seconds = 0;
        return FOVEA_OK;
    }
    double start = fv_machine_seconds();
    fv_job job = {.fn = run_unit, .arg = q, .units = q->units, .phases = q->phases};
    fv_pool_run(q->device->pool, &job);
    q->pending = false;
    *seconds = fv_machine_seconds() - start;
    return FOVEA_OK;
}

const fv_backend fv_backend_cpu = {
    .name = "cpu",
    .abi = FV_BACKEND_ABI,
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .threads = threads,
    .alloc = alloc,
    .release = release,
    .write = write,
    .read = read,
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
};
