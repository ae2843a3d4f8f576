/* cl_queue.c: frames: the caller's memory to the device, the calls of all sweeps, the results back.
 *
 * Two frames may be in flight. What is computed with is there once, so frames are computed one
 * after the other, on the plan's own in-order queue; but inputs and outputs are there twice, and
 * are moved on queues of their own:
 *
 *     up        input n+1
 *     compute   frame n ............
 *     down                            output n-1
 *
 * Where host and device share their memory, inputs are written in place while the frame is handed
 * over, and outputs are read in place when it is waited for; there is no `down` then. An input
 * stays mapped from the end of one frame to the next, so that handing over waits for nothing.
 */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "cl/cl_trace.h"
#include "mem.h"
#include "os_machine.h"
#include "walk.h"

/* One of the caller's matrices in one frame. */
struct external {
    cl_mem buffer;
    char *host;
    uint64_t stride;
    cl_event moved; /* NULL: nothing to wait for */
    void *mapped;   /* an input, to be written once `moved` is done; NULL: the device's */
    /* Of a slot that is kept apart: memory of ours that commands use as `host`, and for an output
     * the caller's. */
    char *own, *callers;
    uint64_t callers_stride;
};

struct frame {
    struct external *external; /* one per slot */
    uint32_t rows;             /* at most */
    cl_event begun, last;      /* markers around the computing */
    double begin;
};

struct fv_queue {
    fv_queue *next; /* of those that were given up */
    fv_device *device;
    cl_command_queue compute, up, down; /* the same where there is but one */
    fv_slot *slot;
    uint32_t slots;
    struct frame frame[FV_CL_FRAMES]; /* number f at f % FV_CL_FRAMES */
    fv_fence submitted, done;
    double expect, landed; /* seconds that the last frame took, and when it was done */
    bool timed;            /* events have timestamps */
    bool unsure;           /* whether all that was handed over has come to its end */
    /* of the frame that is being submitted: */
    struct frame *now;
    cl_event *wait; /* room for one per slot */
    uint32_t waits; /* what its computing waits for */
    fovea_status failed;
    fv_cl_trace trace;
};

/* ---- the caller's memory ---- */

static struct external *place(fv_queue *q, uint32_t slot, char *host, uint64_t stride)
{
    struct external *e = &q->frame[(q->submitted + 1) % FV_CL_FRAMES].external[slot];
    const uint64_t row = q->slot[slot].row_bytes;
    e->host = host;
    e->stride = stride ? stride : row;
    assert(e->stride >= row);
    return e;
}

static uint32_t rows_of(const fv_queue *q, const struct frame *f, uint32_t slot)
{
    return q->slot[slot].rows < f->rows ? q->slot[slot].rows : f->rows;
}

fovea_status fv_cl_upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    /* Inputs are only read. */
    struct external *e = place(q, slot, (char *)(uintptr_t)src, stride);
    if (e->own) {
        const uint64_t row = q->slot[slot].row_bytes;
        fv_gpu_copy_rows(e->own, row, e->host, e->stride, row, q->slot[slot].rows);
        e->host = e->own;
        e->stride = row;
    }
    return FOVEA_OK;
}

fovea_status fv_cl_download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    struct external *e = place(q, slot, dst, stride);
    if (e->own) {
        e->callers = e->host;
        e->callers_stride = e->stride;
        e->host = e->own;
        e->stride = q->slot[slot].row_bytes;
    }
    return FOVEA_OK;
}

/* What of a frame that is done lies in memory of ours yet. */
static void give_outputs(const fv_queue *q, const struct frame *f)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const struct external *e = &f->external[i];
        const uint64_t row = q->slot[i].row_bytes;
        if (q->slot[i].output && e->own)
            fv_gpu_copy_rows(e->callers, e->callers_stride, e->own, row, row, rows_of(q, f, i));
    }
}

static uint64_t bytes_of(const fv_queue *q, uint32_t slot)
{
    return q->slot[slot].row_bytes * q->slot[slot].rows;
}

/* Maps an input that nothing uses for the next frame to come. */
static fovea_status map_input(fv_queue *q, struct frame *f, uint32_t slot)
{
    struct external *e = &f->external[slot];
    cl_event event = NULL;
    cl_int error;
    void *mapped =
        fv_cl.clEnqueueMapBuffer(q->up, e->buffer, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                 (size_t)bytes_of(q, slot), 0, NULL, &event, &error);
    if (error != CL_SUCCESS)
        return fv_cl_lose(q->device, error, "clEnqueueMapBuffer", "an input");
    e->mapped = mapped;
    e->moved = event;
    FV_CL_RUN(q->device, NULL, clFlush, (q->up));
    return FOVEA_OK;
}

static fovea_status map_inputs(fv_queue *q, struct frame *f)
{
    for (uint32_t i = 0; i < q->slots && q->device->limits.unified; i++)
        if (!q->slot[i].output && !f->external[i].mapped)
            FV_TRY(map_input(q, f, i));
    return FOVEA_OK;
}

/* Waits for that. */
static fovea_status settle_input(fv_queue *q, struct external *e, uint32_t slot)
{
    const cl_event event = e->moved;
    e->moved = NULL;
    return event ? fv_cl_settle(q->device, event, bytes_of(q, slot)) : FOVEA_OK;
}

static fovea_status write_input(fv_queue *q, struct frame *f, uint32_t slot)
{
    struct external *e = &f->external[slot];
    const uint64_t row = q->slot[slot].row_bytes;
    FV_TRY(settle_input(q, e, slot));
    void *mapped = e->mapped;
    fv_gpu_copy_rows(mapped, row, e->host, e->stride, row, rows_of(q, f, slot));
    e->mapped = NULL;
    return fv_cl_unmap(q->device, q->up, e->buffer, mapped, &e->moved);
}

static fovea_status read_output(fv_queue *q, struct frame *f, uint32_t slot)
{
    struct external *e = &f->external[slot];
    const uint64_t row = q->slot[slot].row_bytes;
    const uint32_t rows = rows_of(q, f, slot);
    void *mapped;
    FV_TRY(fv_cl_map(q->device, q->down, e->buffer, CL_MAP_READ, row * rows, &mapped));
    fv_gpu_copy_rows(e->host, e->stride, mapped, row, row, rows);
    return fv_cl_unmap(q->device, q->down, e->buffer, mapped, NULL);
}

/* The slot by a command, once `after` is done (NULL: at once). */
static fovea_status enqueue_copy(fv_queue *q, struct frame *f, uint32_t slot, const cl_event *after)
{
    fv_device *d = q->device;
    struct external *e = &f->external[slot];
    const uint64_t row = q->slot[slot].row_bytes;
    const uint32_t rows = rows_of(q, f, slot), n = after ? 1 : 0;
    const size_t origin[3] = {0, 0, 0}, region[3] = {(size_t)row, rows, 1};
    const bool whole = e->stride == row;
    if (q->slot[slot].output && whole)
        FV_CL_RUN(
            d, "an output", clEnqueueReadBuffer,
            (q->down, e->buffer, CL_FALSE, 0, (size_t)(row * rows), e->host, n, after, &e->moved));
    else if (q->slot[slot].output)
        FV_CL_RUN(d, "an output", clEnqueueReadBufferRect,
                  (q->down, e->buffer, CL_FALSE, origin, origin, region, (size_t)row, 0,
                   (size_t)e->stride, 0, e->host, n, after, &e->moved));
    else if (whole)
        FV_CL_RUN(
            d, "an input", clEnqueueWriteBuffer,
            (q->up, e->buffer, CL_FALSE, 0, (size_t)(row * rows), e->host, n, after, &e->moved));
    else
        FV_CL_RUN(d, "an input", clEnqueueWriteBufferRect,
                  (q->up, e->buffer, CL_FALSE, origin, origin, region, (size_t)row, 0,
                   (size_t)e->stride, 0, e->host, n, after, &e->moved));
    return FOVEA_OK;
}

/* ---- open ---- */

static fovea_status make_queue(cl_command_queue *out, const fv_device *d,
                               cl_command_queue_properties properties)
{
    cl_int error;
    cl_command_queue q =
        fv_cl.clCreateCommandQueue(d->context, d->place.device, properties, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateCommandQueue", NULL);
    *out = q;
    return FOVEA_OK;
}

/* Timestamps, and queues beside the first, are done without where the driver refuses them. */
static fovea_status make_queues(fv_queue *q)
{
    const fv_device *d = q->device;
    q->timed = make_queue(&q->compute, d, CL_QUEUE_PROFILING_ENABLE) == FOVEA_OK;
    if (!q->timed)
        FV_TRY(make_queue(&q->compute, d, 0));
    if (make_queue(&q->up, d, 0) != FOVEA_OK)
        q->up = q->compute;
    if (d->limits.unified) /* frame n is read while frame n + 1 stands in `compute` */
        q->down = q->up;
    else if (make_queue(&q->down, d, 0) != FOVEA_OK)
        q->down = q->compute;
    return FOVEA_OK;
}

static fovea_status make_buffers(fv_queue *q, struct frame *f)
{
    const fv_device *d = q->device;
    void *memory;
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof *f->external, FV_MEM_PLAN, "the queue"));
    f->external = memory;
    for (uint32_t i = 0; i < q->slots; i++) {
        const uint64_t size = fv_size_mul(q->slot[i].row_bytes, q->slot[i].rows);
        const char *what = q->slot[i].output ? "an output" : "an input";
        cl_int error;
        if (size > d->limits.largest)
            return fv_fail(FOVEA_ENOMEM,
                           "%s of %.1f MiB; the device's buffers have %.1f at most: use a smaller "
                           "picture",
                           what, (double)size / (1 << 20), (double)d->limits.largest / (1 << 20));
        cl_mem buffer =
            fv_cl.clCreateBuffer(d->context, fv_cl_flags(d), (size_t)size, NULL, &error);
        if (error != CL_SUCCESS)
            return fv_cl_fail(error, "clCreateBuffer", what);
        f->external[i].buffer = buffer;
        if (q->slot[i].apart) {
            FV_TRY(fv_mem_alloc(&memory, size, FV_MEM_PLAN, what));
            f->external[i].own = memory;
        }
    }
    return FOVEA_OK;
}

static fovea_status fill(fv_queue *q, const fv_slot *slot)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof *q->slot, FV_MEM_PLAN, "the queue"));
    q->slot = memory;
    if (q->slots) /* a step that is rehearsed has none */
        memcpy(q->slot, slot, q->slots * sizeof *slot);
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof(cl_event), FV_MEM_PLAN, "the queue"));
    q->wait = memory;
    FV_TRY(make_queues(q));
    for (int i = 0; i < FV_CL_FRAMES; i++)
        FV_TRY(make_buffers(q, &q->frame[i]));
    for (int i = 0; i < FV_CL_FRAMES; i++) {
        FV_TRY(map_inputs(q, &q->frame[i]));
        for (uint32_t k = 0; k < q->slots; k++)
            FV_TRY(settle_input(q, &q->frame[i].external[k], k));
    }
    return FOVEA_OK;
}

fovea_status fv_cl_queue_open(fv_device *d, uint64_t local, const fv_slot *slot, uint32_t slots,
                              uint32_t phases, fv_queue **out)
{
    (void)local, (void)phases;
    void *memory;
    FV_TRY(fv_cl_ready(d));
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_queue), FV_MEM_PLAN, "the queue"));
    fv_queue *q = memory;
    q->device = d;
    q->slots = slots;
    fovea_status status = fill(q, slot);
    if (status != FOVEA_OK) {
        fv_cl_queue_close(q);
        return status;
    }
    *out = q;
    return FOVEA_OK;
}

/* ---- close ---- */

#define PATIENCE 2.0 /* seconds that a frame nobody waited for is given */

static void drop(const fv_queue *q, cl_event *e)
{
    if (*e && !q->device->hung)
        fv_cl.clReleaseEvent(*e);
    *e = NULL;
}

static void drop_events(fv_queue *q, struct frame *f)
{
    drop(q, &f->begun);
    drop(q, &f->last);
    for (uint32_t i = 0; f->external && i < q->slots; i++)
        drop(q, &f->external[i].moved);
}

/* Waits until nothing of the frame is under way, so that the caller's memory and ours may go; what
 * does not come back is given up with all that it may use. */
static void stop_frame(fv_queue *q, struct frame *f)
{
    fv_device *d = q->device;
    const cl_event computing[2] = {f->begun, f->last};
    for (uint32_t i = 0; i < 2 + q->slots; i++) {
        const cl_event event = i < 2 ? computing[i] : f->external[i - 2].moved;
        cl_int error;
        if (!event)
            continue;
        const enum fv_cl_end end =
            d->hung ? FV_CL_LATE : fv_cl_poll(event, PATIENCE, 0, NULL, &error);
        if (end == FV_CL_LATE)
            d->lost = d->hung = true;
        q->unsure = q->unsure || end == FV_CL_LATE || end == FV_CL_UNKNOWN;
    }
    drop_events(q, f);
}

/* Of a frame that is not in flight. */
static void unmap_inputs(fv_queue *q, struct frame *f)
{
    for (uint32_t i = 0; f->external && i < q->slots; i++) {
        struct external *e = &f->external[i];
        drop(q, &e->moved);
        if (e->mapped && !q->device->lost)
            fv_cl_unmap(q->device, q->up, e->buffer, e->mapped, NULL);
        e->mapped = NULL;
    }
}

/* Queues whose memory the device may come back to. */
static _Atomic(fv_queue *) given_up;

static bool is_apart(const fv_queue *q)
{
    for (uint32_t i = 0; q->slot && i < q->slots; i++)
        if (q->slot[i].apart)
            return true;
    return false;
}

static void free_memory(fv_queue *q)
{
    if (q->unsure && is_apart(q)) {
        q->next = atomic_load(&given_up);
        while (!atomic_compare_exchange_weak(&given_up, &q->next, q))
            ;
        return;
    }
    for (int i = 0; i < FV_CL_FRAMES; i++) {
        for (uint32_t k = 0; q->frame[i].external && k < q->slots; k++)
            fv_mem_free(q->frame[i].external[k].own);
        fv_mem_free(q->frame[i].external);
    }
    fv_mem_free(q->wait);
    fv_mem_free(q->slot);
    fv_mem_free(q);
}

void fv_cl_queue_close(fv_queue *q)
{
    if (!q)
        return;
    const fv_device *d = q->device;
    while (q->done < q->submitted)
        stop_frame(q, &q->frame[++q->done % FV_CL_FRAMES]);
    for (int i = 0; i < FV_CL_FRAMES; i++)
        unmap_inputs(q, &q->frame[i]);
    for (int i = 0; i < FV_CL_FRAMES; i++)
        for (uint32_t k = 0; q->frame[i].external && k < q->slots; k++)
            fv_cl_buffer_free(d, q->frame[i].external[k].buffer);
    if (!d->hung) {
        if (q->down && q->down != q->compute && q->down != q->up)
            fv_cl.clReleaseCommandQueue(q->down);
        if (q->up && q->up != q->compute)
            fv_cl.clReleaseCommandQueue(q->up);
        if (q->compute)
            fv_cl.clReleaseCommandQueue(q->compute);
    }
    fv_cl_trace_drop(&q->trace, d);
    fv_cl_trace_open(&q->trace, NULL);
    free_memory(q);
}

/* ---- one dispatch ---- */

static fovea_status set_operands(fv_queue *q, const fv_cl_bound *b, const fv_gpu_dispatch *now,
                                 fv_gpu_before *out)
{
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_operand *op = &b->step.base.l.operand[o];
        const cl_uint at[2] = {now->at[o], now->ld[o]};
        FV_TRY(fv_cl_set_arg(b, 2 * o + 1, sizeof at, at));
        out->at[o] = at[0];
        out->ld[o] = at[1];
        if (op->ref.space == FV_SPACE_EXTERNAL) {
            cl_mem buffer = q->now->external[op->ref.slot].buffer;
            out->buffer[o] = (uintptr_t)buffer;
            FV_TRY(fv_cl_set_arg(b, 2 * o, sizeof buffer, &buffer));
        } else if (op->ref.space != FV_SPACE_NONE) {
            out->buffer[o] = op->ref.mem->handle;
        }
    }
    return FOVEA_OK;
}

/* Another library's part of a dispatch. Of its commands only the last one's event is known: in a
 * traced frame a marker tells where they begin. */
static fovea_status run_before(fv_queue *q, const fv_cl_bound *b, fv_gpu_before *before,
                               uint32_t row0)
{
    cl_event since = NULL;
    void *done = NULL;
    if (q->trace.to) {
        FV_CL_RUN(q->device, NULL, clEnqueueMarkerWithWaitList, (q->compute, 0, NULL, &since));
        before->event = &done;
    }
    const fovea_status status = b->step.code->before(&b->step.base.l, before);
    if (status == FOVEA_EDEVICE)
        q->device->lost = true;
    if (q->trace.to)
        fv_cl_trace_note(&q->trace, q->device, &b->step.base.l, row0, before->rows, since, done);
    return status;
}

/* The rows [from, from + rows) of a call. */
static fovea_status dispatch(fv_queue *q, const fv_cl_bound *b, uint32_t width, const fv_call *c,
                             uint32_t from, uint32_t rows)
{
    const fv_launch *l = &b->step.base.l;
    const uint32_t after = 2 * b->step.operands, group = b->step.group;
    fv_gpu_before before = {.device = q->device, .queue = q->compute, .rows = rows};
    fv_gpu_dispatch now;
    fv_gpu_dispatch_fill(&now, &b->step, width, c, from, rows);
    FV_TRY(set_operands(q, b, &now, &before));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_ROW0, sizeof now.row0, &now.row0));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_ROWS, sizeof now.rows, &now.rows));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_FIRST, sizeof now.first, &now.first));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_GROUPS, sizeof now.groups, &now.groups));
    if (b->step.code->before) {
        before.scratch = l->scratch_mem->handle;
        FV_TRY(run_before(q, b, &before, now.row0));
    }
    const size_t items[3] = {now.count[0] * group, now.count[1], now.count[2]};
    const size_t local[3] = {group, 1, 1};
    cl_event done = NULL;
    FV_CL_RUN(q->device, l->kernel->name, clEnqueueNDRangeKernel,
              (q->compute, b->kernel, 3, NULL, items, local, 0, NULL, q->trace.to ? &done : NULL));
    if (q->trace.to)
        fv_cl_trace_note(&q->trace, q->device, l, now.row0, rows, NULL, done);
    return FOVEA_OK;
}

/* Begins what was handed over so far, so that the device need not wait for the rest. */
static fovea_status begin_work(fv_queue *q)
{
    FV_CL_RUN(q->device, NULL, clFlush, (q->compute));
    return FOVEA_OK;
}

/* A call that takes too long at once is given in pieces of about equal size. */
static fovea_status dispatch_pieces(fv_queue *q, const fv_cl_bound *b, uint32_t width,
                                    const fv_call *c)
{
    const uint32_t even = fv_gpu_step_cut(&b->step, c->rows);
    if (even == c->rows)
        return dispatch(q, b, width, c, 0, c->rows);
    for (uint32_t from = 0; from < c->rows; from += even) {
        const uint32_t left = c->rows - from;
        FV_TRY(dispatch(q, b, width, c, from, left < even ? left : even));
        FV_TRY(begin_work(q));
    }
    return FOVEA_OK;
}

static void call(void *ctx, fv_bound *step, uint32_t width, fv_call *c)
{
    fv_queue *q = ctx;
    if (q->failed == FOVEA_OK)
        q->failed = dispatch_pieces(q, (fv_cl_bound *)step, width, c);
}

/* ---- submit ---- */

static fovea_status bring_inputs(fv_queue *q)
{
    struct frame *f = q->now;
    FV_TRY(map_inputs(q, f)); /* those that could not be mapped before */
    for (uint32_t i = 0; i < q->slots; i++) {
        if (q->slot[i].output)
            continue;
        FV_TRY(q->device->limits.unified ? write_input(q, f, i) : enqueue_copy(q, f, i, NULL));
        q->wait[q->waits++] = f->external[i].moved;
    }
    FV_CL_RUN(q->device, NULL, clFlush, (q->up));
    return FOVEA_OK;
}

static fovea_status compute(fv_queue *q, const fv_sweep *s, uint32_t count)
{
    q->failed = FOVEA_OK;
    FV_CL_RUN(q->device, NULL, clEnqueueMarkerWithWaitList,
              (q->compute, q->waits, q->waits ? q->wait : NULL, &q->now->begun));
    for (uint32_t i = 0; i < count; i++) {
        fv_walk_sweep(&s[i], q->now->rows, call, q);
        FV_TRY(q->failed);
        FV_TRY(begin_work(q));
    }
    FV_CL_RUN(q->device, NULL, clEnqueueMarkerWithWaitList, (q->compute, 0, NULL, &q->now->last));
    return begin_work(q);
}

static fovea_status take_outputs(fv_queue *q)
{
    struct frame *f = q->now;
    if (q->device->limits.unified)
        return FOVEA_OK;
    for (uint32_t i = 0; i < q->slots; i++)
        if (q->slot[i].output)
            FV_TRY(enqueue_copy(q, f, i, &f->last));
    FV_CL_RUN(q->device, NULL, clFlush, (q->down));
    return FOVEA_OK;
}

fovea_status fv_cl_submit(fv_queue *q, const fv_sweep *s, uint32_t count, uint32_t rows,
                          fv_fence *out)
{
    FV_TRY(fv_cl_ready(q->device));
    assert(q->submitted - q->done < FV_CL_FRAMES);
    q->now = &q->frame[(q->submitted + 1) % FV_CL_FRAMES];
    q->now->rows = rows;
    q->now->begin = fv_machine_seconds();
    q->waits = 0;
    fv_cl_trace_drop(&q->trace, q->device); /* of the frame before */
    fovea_status status = bring_inputs(q);
    if (status == FOVEA_OK)
        status = compute(q, s, count);
    if (status == FOVEA_OK)
        status = take_outputs(q);
    if (status != FOVEA_OK) {
        stop_frame(q, q->now);
        return status;
    }
    *out = ++q->submitted;
    return FOVEA_OK;
}

/* ---- wait ---- */

enum { LEAST = 1000 }; /* nanoseconds of a frame: a clock that shows fewer is none */

/* Seconds between the markers. */
static double device_seconds(fv_queue *q, const struct frame *f)
{
    cl_ulong asked, begin = 0, end = 0;
    if (q->timed && fv_cl_event_times(f->begun, &asked, &begin) &&
        fv_cl_event_times(f->last, &asked, &end) && end >= begin + LEAST)
        return (double)(end - begin) * 1e-9;
    q->timed = false;
    const double from = f->begin > q->landed ? f->begin : q->landed;
    return fv_machine_seconds() - from;
}

/* Waits for one frame; ETIMEOUT leaves it as it is. */
static fovea_status land(fv_queue *q, struct frame *f, double deadline)
{
    fv_device *d = q->device;
    const double from = f->begin > q->landed ? f->begin : q->landed;
    const double expect = from + q->expect - fv_machine_seconds();
    FV_TRY(fv_cl_await(d, f->last, fv_gpu_left(deadline), expect));
    for (uint32_t i = 0; i < q->slots; i++) {
        if (d->limits.unified && q->slot[i].output)
            FV_TRY(read_output(q, f, i));
        else if (f->external[i].moved)
            FV_TRY(fv_cl_await(d, f->external[i].moved, fv_gpu_left(deadline), 0));
    }
    give_outputs(q, f);
    return FOVEA_OK;
}

fovea_status fv_cl_wait(fv_queue *q, fv_fence fence, double timeout, double *seconds)
{
    const double deadline = timeout < 0 ? -1 : fv_machine_seconds() + timeout;
    *seconds = 0;
    while (q->done < fence) {
        struct frame *f = &q->frame[(q->done + 1) % FV_CL_FRAMES];
        FV_TRY(fv_cl_ready(q->device));
        const fovea_status status = land(q, f, deadline);
        if (status == FOVEA_ETIMEOUT)
            return status;
        if (status == FOVEA_OK) {
            *seconds = q->expect = device_seconds(q, f);
            fv_cl_trace_settle(&q->trace, q->device, f->begun);
            q->landed = fv_machine_seconds();
            drop_events(q, f);
            map_inputs(q, f); /* what goes wrong shows when the next frame is handed over */
        } else {
            stop_frame(q, f);
        }
        q->done++;
        FV_TRY(status);
    }
    return FOVEA_OK;
}

fovea_status fv_cl_queue_trace(fv_queue *q, fv_trace *t)
{
    if (t && !q->timed)
        return fv_fail(FOVEA_ENOTSUP, "this device's driver tells no times of what it runs");
    fv_cl_trace_drop(&q->trace, q->device);
    return fv_cl_trace_open(&q->trace, t);
}
