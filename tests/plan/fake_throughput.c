/* fake_throughput.c: see fake_throughput.h. */
#include "tests/plan/fake_throughput.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/mem.h"
#include "device/sweep_calls.h"
#include "platform/cpu/cpu.h"
#include "platform/cpu/cpu_backend.h"

enum { GUARD = 64, FILL = 0xff }; /* guard floats, filled with NaN */

struct fv_device {
    fake_options options;
    fake_account seen;
    uint64_t held;
};

struct external {
    fv_slot slot;
    const char *src;
    char *dst, *copy; /* copy: rows without gaps, as on a device */
    uint64_t stride;
};

struct fv_queue {
    fv_device *device;
    struct external *external;
    uint32_t slots;
    fv_fence fence, done;
};

static void *filled(uint64_t size)
{
    char *p = aligned_alloc(64, (size_t)(size + 63) / 64 * 64 + GUARD);
    assert_non_null(p);
    memset(p, FILL, (size_t)(size + 63) / 64 * 64 + GUARD);
    return p;
}

static void check_guard(const char *p, uint64_t size)
{
    for (uint64_t i = size; i < (size + 63) / 64 * 64 + GUARD; i++)
        if ((unsigned char)p[i] != FILL)
            fail_msg("byte %llu behind a buffer of %llu was written",
                     (unsigned long long)(i - size), (unsigned long long)size);
}

/* ---- device ---- */

static void close_device(fv_device *d)
{
    assert_int_equal(d->held, 0);
    if (d->options.closed)
        *d->options.closed = true;
    free(d);
}

static void limits(const fv_device *d, fv_limits *out)
{
    *out = (fv_limits){.threads = 1,
                       .int8 = true,
                       .throughput = true,
                       .partials = 32,
                       .frames = 1,
                       .largest = d->options.largest ? d->options.largest : UINT64_MAX};
}

static fovea_status alloc(fv_device *d, uint64_t size, const char *what, fv_mem *out)
{
    if (d->options.largest && size > d->options.largest)
        return fv_fail(FOVEA_EDEVICE, "%s: a buffer of %llu bytes", what, (unsigned long long)size);
    void *p = filled(size);
    *out = (fv_mem){.host = p, .size = size, .handle = (uintptr_t)p};
    d->seen.largest = size > d->seen.largest ? size : d->seen.largest;
    d->seen.buffers++;
    d->held++;
    return FOVEA_OK;
}

static void release(fv_device *d, fv_mem *m)
{
    check_guard(m->host, m->size);
    free(m->host);
    d->held--;
    *m = (fv_mem){0};
}

static fovea_status write_buffer(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    assert_true(size <= m->size);
    if (d->options.lost && *d->options.lost)
        return fv_fail(FOVEA_EDEVICE, "the device is lost");
    if (src)
        memcpy(m->host, src, (size_t)size);
    else
        memset(m->host, 0, (size_t)size);
    return FOVEA_OK;
}

static fovea_status read_buffer(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
{
    (void)d;
    assert_true(size <= m->size);
    memcpy(dst, m->host, (size_t)size);
    return FOVEA_OK;
}

static const fv_kernel *kernels(fv_device *d, int *count, uint32_t *features)
{
    (void)d;
    *features = fv_cpu_features();
    return fv_cpu_kernels(count);
}

static uint32_t written(const fv_launch *l)
{
    uint32_t o = FV_OPERANDS - 1;
    while (l->operand[o].ref.space == FV_SPACE_NONE)
        o--;
    return o;
}

/* Returns whether operand `o` needs a float32 copy, because CPU kernels here only take floats.
 * Results are converted back. */
static bool widens(const fv_launch *l, uint32_t o)
{
    const fv_operand *op = &l->operand[o];
    return op->kind != FV_KIND_WEIGHT && (op->type == FV_F16 || op->type == FV_BF16) &&
           l->args.prob.op != FV_OP_CONVERT && l->args.prob.op != FV_OP_SCAN;
}

static fovea_status bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    fv_bound *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->l = *l;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (widens(l, o))
            b->l.args.type[o] = FV_F32;
    if (widens(l, 0))
        b->l.args.prob.in = FV_F32;
    if (widens(l, written(l)))
        b->l.args.prob.out = FV_F32;
    d->held++;
    *out = b;
    return FOVEA_OK;
}

static void unbind(fv_device *d, fv_bound *b)
{
    d->held--;
    free(b);
}

/* ---- queue ---- */

static fovea_status queue_open(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                               uint32_t phases, fv_queue **out)
{
    (void)scratch, (void)phases;
    fv_queue *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->device = d;
    q->slots = slots;
    q->external = calloc(slots ? slots : 1, sizeof *q->external);
    assert_non_null(q->external);
    for (uint32_t i = 0; i < slots; i++) {
        q->external[i].slot = slot[i];
        q->external[i].copy = filled(slot[i].row_bytes * slot[i].rows);
    }
    *out = q;
    return FOVEA_OK;
}

static void queue_close(fv_queue *q)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        check_guard(q->external[i].copy, q->external[i].slot.row_bytes * q->external[i].slot.rows);
        free(q->external[i].copy);
    }
    free(q->external);
    free(q);
}

static fovea_status upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    struct external *e = &q->external[slot];
    e->src = src;
    e->stride = stride ? stride : e->slot.row_bytes;
    return FOVEA_OK;
}

static fovea_status download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    struct external *e = &q->external[slot];
    e->dst = dst;
    e->stride = stride ? stride : e->slot.row_bytes;
    return FOVEA_OK;
}

/* ---- one call ---- */

static char *base_of(const fv_queue *q, const fv_launch *l, uint32_t o, const fv_call *c,
                     uint32_t width, uint64_t *available)
{
    const fv_operand *op = &l->operand[o];
    const uint64_t row = l->args.ld[o] * (uint64_t)fv_type_size(op->type);
    const bool external = op->ref.space == FV_SPACE_EXTERNAL;
    if (op->ref.space == FV_SPACE_NONE)
        return NULL;
    const struct external *e = external ? &q->external[op->ref.slot] : NULL;
    char *base = external ? e->copy : op->ref.mem->host;
    uint64_t at = op->ref.offset,
             size = external ? e->slot.row_bytes * e->slot.rows : op->ref.mem->size;
    if (op->kind == FV_KIND_ROW && op->ref.space != FV_SPACE_LOCAL)
        at += c->row0 * row;
    else if (op->kind == FV_KIND_ROW && op->ring)
        at += fv_sweep_calls_ring_row(op, c->row0, width) * row;
    if (op->kind == FV_KIND_PARTIAL)
        at += c->group * op->stride;
    assert_true(at < size);
    *available = size - at;
    return base + at;
}

struct widened {
    float *copy;
    char *from;
    uint64_t count;
    uint8_t type;
};

static struct widened widen(const fv_launch *l, uint32_t o, const fv_call *c, char *from,
                            uint64_t available)
{
    const fv_operand *op = &l->operand[o];
    struct widened w = {.from = from, .type = op->type};
    if (!from || !widens(l, o))
        return w;
    w.count = available / 2;
    if (op->kind == FV_KIND_ROW && w.count > (uint64_t)c->rows * l->args.ld[o])
        w.count = (uint64_t)c->rows * l->args.ld[o];
    w.copy = malloc((size_t)w.count * sizeof(float));
    assert_non_null(w.copy);
    for (uint64_t i = 0; i < w.count; i++)
        w.copy[i] = fv_value_get(from, op->type, (size_t)i);
    return w;
}

static void narrow(struct widened *w, bool written)
{
    for (uint64_t i = 0; w->copy && written && i < w->count; i++)
        fv_value_put(w->from, w->type, (size_t)i, w->copy[i]);
    free(w->copy);
}

static void call(void *ctx, fv_bound *step, const fv_call_place *at, fv_call *c)
{
    const fv_queue *q = ctx;
    const fv_launch *l = &step->l;
    struct widened w[FV_OPERANDS] = {{0}};
    const uint32_t parts = c->partials ? c->partials : 1;
    const fv_call all = *c;
    assert_true(c->rows > 0 && c->col0 == 0 && c->cols == l->cols);
    q->device->seen.parted += parts > 1;
    q->device->seen.cut += c->rows < l->rows;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        uint64_t available = 0;
        char *p = base_of(q, l, o, c, at->width, &available);
        w[o] = widen(l, o, c, p, available);
        c->p[o] = w[o].copy ? (void *)w[o].copy : p;
    }
    c->scratch = l->scratch_mem && l->scratch_mem->host ? l->scratch_mem->host : NULL;
    for (uint32_t g = 0; g < parts; g++) {
        fv_call part = *c;
        const uint32_t begin = (uint32_t)((uint64_t)g * all.rows / parts);
        part.row0 = all.row0 + begin;
        part.rows = (uint32_t)((uint64_t)(g + 1) * all.rows / parts) - begin;
        part.group = all.group + g;
        part.partials = 1;
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            const fv_operand *op = &l->operand[o];
            const size_t elem = w[o].copy ? sizeof(float) : fv_type_size(op->type);
            if (c->p[o] && op->kind == FV_KIND_ROW)
                part.p[o] = (char *)c->p[o] + (size_t)begin * l->args.ld[o] * elem;
            if (c->p[o] && op->kind == FV_KIND_PARTIAL)
                part.p[o] = (char *)c->p[o] + g * op->stride;
        }
        assert_true(part.rows > 0 || !part.first);
        if (part.rows)
            l->kernel->code.cpu(&l->args, &part);
    }
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        narrow(&w[o], o == written(l));
}

static fovea_status submit(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const struct external *e = &q->external[i];
        for (uint32_t r = 0; !e->slot.output && r < e->slot.rows; r++)
            memcpy(e->copy + r * e->slot.row_bytes, e->src + r * e->stride, e->slot.row_bytes);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < (s[i].streamed ? 1 : s[i].steps); k++) {
            const uint32_t units = fv_sweep_calls_units(&s[i], k, most);
            assert_int_equal(units, 1); /* a throughput device has one thread */
            fv_sweep_calls_unit(&s[i], k, 0, most, call, q);
        }
    *out = ++q->fence;
    return FOVEA_OK;
}

static fovea_status wait(fv_queue *q, fv_fence f, double timeout, double *seconds)
{
    (void)timeout;
    *seconds = 0;
    for (uint32_t i = 0; q->done < f && i < q->slots; i++) {
        const struct external *e = &q->external[i];
        for (uint32_t r = 0; e->slot.output && r < e->slot.rows; r++)
            memcpy(e->dst + r * e->stride, e->copy + r * e->slot.row_bytes, e->slot.row_bytes);
    }
    q->done = f;
    return FOVEA_OK;
}

static const fv_backend fake_backend = {
    .name = "fake",
    .abi = FV_BACKEND_ABI,
    .close = close_device,
    .limits = limits,
    .alloc = alloc,
    .release = release,
    .write = write_buffer,
    .read = read_buffer,
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

fovea_device *fake_open(const fake_options *options)
{
    void *memory;
    fv_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    assert_int_equal(fv_mem_alloc(&memory, sizeof(fovea_device), FV_MEM_DEVICE, "device"), 0);
    fovea_device *device = memory;
    d->options = *options;
    device->backend = &fake_backend;
    device->device = d;
    device->refs = 1;
    device->info = (fovea_device_info){
        .id = "fake:0", .memory = options->memory, .max_buffer = options->largest};
    return device;
}

fake_account fake_seen(const fovea_device *device)
{
    return device->device->seen;
}
