/* check_device.c: runs kernels on a device through the backend's functions, as steps of sweeps.
 *
 * Each operand has its own buffer, which is filled with NaN patterns around it. The operand begins
 * at an odd element or, in every second case, at an aligned address, which kernels may require.
 * After a frame every buffer is read back; only the elements that the kernel must write may have
 * changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"
#include "tests/kernels/check_run.h"

enum {
    BEFORE = 61, /* elements of an operand's buffer before the operand */
    ALIGNED = 64,
    BEHIND = 67,
    CALLS = 48, /* upper bound on the pieces of a case: each costs a dispatch */
};

typedef struct check_device {
    const fv_backend *backend;
    fv_device *device;
    bool throughput;
    uint32_t rows; /* upper bound per call */
    char id[64];
} check_device;

/* An operand's buffer: `image` is the expected content, `at` is the operand's offset. */
typedef struct zone {
    fv_mem mem;
    uint8_t *image;
    size_t size, at, extent;
} zone;

typedef struct site {
    check_job *job;
    const check_device *on;
    zone operand[FV_OPERANDS], scratch;
    int out;
    size_t before;
    fv_launch launch;
    fv_bound *bound;
    fv_queue *queue;
} site;

static bool status_is_ok(check_job *j, fovea_status status, const char *what)
{
    return status == FOVEA_OK || check_complain(j, "%s: %s", what, fovea_error());
}

/* ---- buffers ---- */

static bool zone_open(site *s, zone *z, size_t extent, size_t before, size_t element, size_t align)
{
    z->extent = extent;
    z->at = align ? (before * element + align - 1) / align * align : before * element;
    z->size = z->at + extent + BEHIND * element;
    z->image = check_must(malloc(z->size));
    check_poison(z->image, z->size);
    return status_is_ok(
        s->job, s->on->backend->alloc(s->on->device, z->size, "an operand", &z->mem), "alloc");
}

static bool zone_write(site *s, zone *z)
{
    return status_is_ok(s->job, s->on->backend->write(s->on->device, &z->mem, z->image, z->size),
                        "write");
}

static void zone_close(const site *s, zone *z)
{
    if (z->mem.size)
        s->on->backend->release(s->on->device, &z->mem);
    free(z->image);
}

/* Returns the alignment in bytes that plans give an operand: a cache line for int8 rows, which
 * begin with floats. 0 means that elements alone are aligned. */
static size_t alignment(const check_case *c, int i)
{
    return c->operand[i].storage == FV_U8 && c->args.prob.acc == FV_I32 ? 64 : 0;
}

static bool place_operand(site *s, int i)
{
    const check_case *c = s->job->c;
    const check_operand *o = &c->operand[i];
    zone *z = &s->operand[i];
    if (o->kind == CHECK_WEIGHT) {
        size_t size;
        uint8_t *packed = check_packed(s->job, i, &size);
        const bool good = zone_open(s, z, size, BEFORE, sizeof(float), 64);
        memcpy(z->image + z->at, packed, size);
        free(packed);
        return good && zone_write(s, z);
    }
    if (!zone_open(s, z, check_extent(o), s->before, check_element(o), alignment(c, i)))
        return false;
    /* An output that is added to starts with its own values. */
    const int from = i == s->out && !c->adds ? c->in_place : i;
    if (from >= 0)
        check_stored(&c->operand[from], z->image + z->at);
    return zone_write(s, z);
}

static enum fv_kind kind_of(const check_case *c, int i)
{
    static const uint8_t kinds[] = {[CHECK_ROW] = FV_KIND_ROW,
                                    [CHECK_BASE] = FV_KIND_WHOLE,
                                    [CHECK_WEIGHT] = FV_KIND_WEIGHT,
                                    [CHECK_PARTIAL] = FV_KIND_PARTIAL};
    const check_operand *o = &c->operand[i];
    if (i == c->state)
        return FV_KIND_STATE;
    return o->kind == CHECK_BASE && c->args.window && o->rows > 1 ? FV_KIND_LOCAL : kinds[o->kind];
}

static void describe_operand(site *s, int i)
{
    const check_case *c = s->job->c;
    const check_operand *o = &c->operand[i];
    const zone *z = &s->operand[i == c->in_place ? s->out : i];
    fv_operand *to = &s->launch.operand[i];
    *to = (fv_operand){
        .ref = {.space = FV_SPACE_BUFFER, .offset = z->at, .mem = &z->mem},
        .kind = (uint8_t)kind_of(c, i),
        .type = o->kind == CHECK_WEIGHT ? c->args.prob.weight : o->storage,
    };
    if (to->kind == FV_KIND_ROW || to->kind == FV_KIND_PARTIAL)
        to->stride = (uint64_t)o->ld * check_element(o);
    if (to->kind == FV_KIND_LOCAL) {
        to->ring = c->args.window;
        to->shift = c->args.shift;
    }
}

static bool place(site *s)
{
    const check_case *c = s->job->c;
    const size_t scratch = check_scratch(s->job);
    for (int i = 0; i <= s->out; i++)
        if (c->operand[i].kind != CHECK_ABSENT && i != c->in_place && !place_operand(s, i))
            return false;
    for (int i = 0; i <= s->out; i++)
        if (c->operand[i].kind != CHECK_ABSENT)
            describe_operand(s, i);
    if (!scratch)
        return true;
    s->launch.scratch_mem = &s->scratch.mem;
    /* On a throughput device the scratch is a buffer of its own, from offset 0. */
    const size_t before = s->on->throughput ? 0 : BEFORE;
    return zone_open(s, &s->scratch, scratch, before, sizeof(float), 64) &&
           zone_write(s, &s->scratch);
}

/* ---- a frame ---- */

static bool bind(site *s)
{
    const check_case *c = s->job->c;
    const fv_backend *b = s->on->backend;
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], columns = check_columns(c);
    s->launch.kernel = s->job->kernel;
    s->launch.args = c->args;
    s->launch.args.knobs = s->job->knobs;
    s->launch.rows = s->launch.tile_rows = rows;
    s->launch.cols = s->launch.tile_cols = columns;
    return status_is_ok(s->job, b->bind(s->on->device, &s->launch, &s->bound), "bind") &&
           status_is_ok(s->job,
                        b->queue_open(s->on->device, s->on->throughput ? 0 : s->scratch.extent,
                                      NULL, 0, 1, &s->queue),
                        "queue_open");
}

static bool reduces(const check_case *c)
{
    return fv_op_table[c->args.prob.op]->span == FV_SPAN_REDUCE;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Makes the sweep. A throughput device distributes the rows of a call over the groups; on other
 * devices every row is a separate call. */
static fv_sweep sweep_of(site *s, enum check_way way, check_random r)
{
    check_case *c = s->job->c;
    const uint32_t rows = s->launch.rows, groups = reduces(c) ? c->operand[s->out].rows : 1;
    fv_sweep sweep = {.step = &s->bound,
                      .steps = 1,
                      .rows = rows,
                      .chunk = rows,
                      .groups = 1,
                      .partials = 1,
                      .runs = 1,
                      .streamed = way == CHECK_ROWS};
    if (way == CHECK_ROWS)
        sweep.chunk = most(check_piece(&r, rows, c->align),
                           (rows / CALLS + c->align - 1) / c->align * c->align);
    /* If the device splits a call, the rows of each piece are distributed separately. */
    if (reduces(c) && s->on->throughput && sweep.chunk > s->on->rows)
        sweep.chunk = s->on->rows;
    c->dealt = 0;
    if (s->on->throughput) {
        sweep.partials = groups;
        c->dealt = reduces(c) ? sweep.chunk : 0;
    } else if (groups > 1) {
        sweep.groups = sweep.runs = groups;
        sweep.chunk = 1;
    }
    return sweep;
}

static bool frame(site *s, enum check_way way, check_random r)
{
    const double bound = 300; /* seconds */
    const fv_backend *b = s->on->backend;
    const fv_sweep sweep = sweep_of(s, way, r);
    fv_fence fence;
    double seconds;
    return status_is_ok(s->job, b->submit(s->queue, &sweep, 1, FV_ALL, &fence), "submit") &&
           status_is_ok(s->job, b->wait(s->queue, fence, bound, &seconds), "wait");
}

/* ---- results ---- */

/* Moves `size` bytes at `at` from the buffer that was read back to `to`, and restores the image
 * there. */
static void take(uint8_t *to, uint8_t *seen, const zone *z, size_t at, size_t size)
{
    memcpy(to, seen + z->at + at, size);
    memcpy(seen + z->at + at, z->image + z->at + at, size);
}

static void take_results(site *s, int i, uint8_t *seen, uint8_t *result)
{
    const check_case *c = s->job->c;
    const check_operand *o = &c->operand[i];
    const size_t row = o->cols * check_element(o);
    if (i == s->out)
        for (uint32_t y = 0; y < o->rows; y++)
            take(result + y * row, seen, &s->operand[i], (size_t)y * o->ld * check_element(o), row);
    if (i == c->state)
        take(result + check_output_size(c), seen, &s->operand[i], 0, row);
}

static bool unchanged(site *s, const zone *z, const uint8_t *seen, const char *what, int i)
{
    size_t at = 0;
    while (at < z->size && seen[at] == z->image[at])
        at++;
    return at == z->size ||
           check_complain(s->job, "%s %d (%zu bytes) changed at byte %ld, not its to write", what,
                          i, z->extent, (long)at - (long)z->at);
}

static bool collect(site *s, uint8_t *result)
{
    bool good = true;
    for (int i = 0; good && i <= s->out; i++) {
        zone *z = &s->operand[i];
        if (!z->image)
            continue;
        uint8_t *seen = check_must(malloc(z->size));
        good = status_is_ok(s->job, s->on->backend->read(s->on->device, &z->mem, seen, z->size),
                            "read");
        if (good) {
            take_results(s, i, seen, result);
            good = unchanged(s, z, seen, "operand", i);
        }
        free(seen);
    }
    return good;
}

/* Returns true if nothing outside the kernel's scratch changed. The scratch itself may change. */
static bool scratch_kept(site *s)
{
    zone *z = &s->scratch;
    if (!z->image)
        return true;
    uint8_t *seen = check_must(malloc(z->size));
    bool good =
        status_is_ok(s->job, s->on->backend->read(s->on->device, &z->mem, seen, z->size), "read");
    if (good) {
        memcpy(seen + z->at, z->image + z->at, z->extent);
        good = unchanged(s, z, seen, "scratch", 0);
    }
    free(seen);
    return good;
}

static bool run(const check_runner *runner, check_job *j, enum check_way way, uint8_t *result,
                check_random r)
{
    site s = {.job = j,
              .on = runner->on,
              .out = check_output(j->c),
              .before = check_below(&r, 2) ? BEFORE : ALIGNED};
    const bool good =
        place(&s) && bind(&s) && frame(&s, way, r) && collect(&s, result) && scratch_kept(&s);
    const fv_backend *b = s.on->backend;
    if (s.queue)
        b->queue_close(s.queue);
    if (s.bound)
        b->unbind(s.on->device, s.bound);
    for (int i = 0; i <= s.out; i++)
        zone_close(&s, &s.operand[i]);
    zone_close(&s, &s.scratch);
    return good;
}

static bool cuts(const check_case *c)
{
    return c->args.prob.dim[FV_DIM_ROWS] > c->align;
}

const fv_kernel *check_device_open(check_runner *out, const char *id, int *count, char *message,
                                   size_t message_size)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.max_dispatch_seconds = 1e3; /* no call is split, however long it takes */
    check_device *d = check_must(calloc(1, sizeof *d));
    const size_t name = strcspn(id, ":");
    for (size_t i = 0; fv_backends[i]; i++)
        if (strlen(fv_backends[i]->name) == name && !strncmp(fv_backends[i]->name, id, name))
            d->backend = fv_backends[i];
    if (!d->backend || d->backend->open(&d->device, id[name] ? id + name + 1 : "", &options)) {
        snprintf(message, message_size, "%s: %s", id,
                 d->backend ? fovea_error() : "no backend of that name");
        free(d);
        return NULL;
    }
    fv_limits limits;
    d->backend->limits(d->device, &limits);
    d->throughput = limits.throughput;
    d->rows = limits.rows;
    snprintf(d->id, sizeof d->id, "%s", id);
    *out =
        (check_runner){.device = d->id, .narrow = d->throughput, .run = run, .cuts = cuts, .on = d};
    return d->backend->kernels(d->device, count, &out->features);
}

void check_device_close(check_runner *runner)
{
    check_device *d = (check_device *)(uintptr_t)runner->on;
    d->backend->close(d->device);
    free(d);
}
