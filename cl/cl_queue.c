/* cl_queue.c: OpenCL's part of the frames of gpu_queue.h. Uploads, computing and downloads have
 * separate queues.
 *
 * If host and device share memory, fovea_submit writes inputs in place and fovea_wait reads outputs
 * in place, without transfers. An input stays mapped from the end of one frame to the next, so that
 * submitting does not wait.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "cl/cl_fence.h"
#include "cl/cl_import.h"
#include "cl/cl_trace.h"
#include "gpu/gpu_queue.h"
#include "platform/os/os_machine.h"

/* The state of the transfer of one of the caller's matrices, in one frame. */
struct transfer {
    cl_event moved; /* NULL: nothing to wait for */
    /* An input's mapped memory, which the host may write once `moved` is done; NULL: the device
     * owns it. */
    void *mapped;
};

struct cl_frame {
    struct transfer *transfer; /* one per slot */
    cl_event begun, last;      /* markers around the computing */
    fv_cl_recording recorded;
};

struct cl_queue {
    fv_queue base;
    struct cl_queue *next;              /* next in the list of abandoned queues */
    cl_command_queue compute, up, down; /* may be the same queue, if the driver has only one */
    /* The queue without timestamps; `compute` is this one unless frames are timed. */
    cl_command_queue plain;
    struct cl_frame frame[FV_GPU_FRAMES];
    cl_event *wait;       /* list of events to wait for, with an entry per slot */
    fv_cl_fences *fences; /* NULL: the driver has none */
    bool wanted;          /* the caller asks for times of frames, not only for a trace */
    bool timed;           /* events of `compute` have timestamps */
    bool clockless;       /* the driver's timestamps are unusable */
    bool unsure;          /* submitted work may still be running */
    /* For the frame that is being enqueued. recording: where dispatches are recorded; NULL: they
     * are run. replayed: how many dispatches have been replayed, and so need not be enqueued. */
    fv_cl_recording *recording;
    uint32_t replayed;
    fv_cl_trace trace;
};

static struct cl_queue *cl_queue_of(fv_queue *q)
{
    return (struct cl_queue *)q;
}

static cl_mem buffer_of(const fv_queue *q, uint32_t f, uint32_t slot)
{
    return (cl_mem)(uintptr_t)q->frame[f].external[slot].buffer;
}

/* ---- the caller's memory ---- */

/* Maps an input's buffer, which no command uses, so that the host can write the next frame. */
static fovea_status map_input(struct cl_queue *q, uint32_t f, uint32_t slot)
{
    struct transfer *t = &q->frame[f].transfer[slot];
    cl_event event = NULL;
    cl_int error;
    void *mapped = fv_cl.clEnqueueMapBuffer(
        q->up, buffer_of(&q->base, f, slot), CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
        (size_t)fv_gpu_slot_bytes(&q->base.slot[slot]), 0, NULL, &event, &error);
    if (error != CL_SUCCESS)
        return fv_cl_lose(q->base.device, error, "clEnqueueMapBuffer", "an input");
    t->mapped = mapped;
    t->moved = event;
    FV_CL_RUN(q->base.device, NULL, clFlush, (q->up));
    return FOVEA_OK;
}

static fovea_status map_inputs(struct cl_queue *q, uint32_t f)
{
    for (uint32_t i = 0; i < q->base.slots && q->base.device->limits.unified; i++)
        if (!q->base.slot[i].output && !q->frame[f].transfer[i].mapped)
            FV_TRY(map_input(q, f, i));
    return FOVEA_OK;
}

static fovea_status await_mapping(struct cl_queue *q, uint32_t f, uint32_t slot)
{
    struct transfer *t = &q->frame[f].transfer[slot];
    const cl_event event = t->moved;
    t->moved = NULL;
    return event ? fv_cl_finish_event(q->base.device, event, fv_gpu_slot_bytes(&q->base.slot[slot]))
                 : FOVEA_OK;
}

static fovea_status write_input(struct cl_queue *q, uint32_t slot, uint32_t rows)
{
    const uint32_t f = q->base.now;
    const fv_gpu_external *e = &q->base.frame[f].external[slot];
    struct transfer *t = &q->frame[f].transfer[slot];
    const uint64_t row = q->base.slot[slot].row_bytes;
    if (!t->mapped) /* it could not be before */
        FV_TRY(map_input(q, f, slot));
    FV_TRY(await_mapping(q, f, slot));
    void *mapped = t->mapped;
    fv_gpu_copy_rows(mapped, row, e->host, e->stride, row, rows);
    t->mapped = NULL;
    return fv_cl_unmap(q->base.device, q->up, buffer_of(&q->base, f, slot), mapped, &t->moved);
}

static fovea_status read_output(struct cl_queue *q, uint32_t f, uint32_t slot)
{
    const fv_gpu_external *e = &q->base.frame[f].external[slot];
    const uint64_t row = q->base.slot[slot].row_bytes;
    const uint32_t rows = fv_gpu_slot_rows(&q->base, f, slot);
    const cl_mem buffer = buffer_of(&q->base, f, slot);
    void *mapped;
    if (!rows)
        return FOVEA_OK;
    FV_TRY(fv_cl_map(q->base.device, q->down, buffer, CL_MAP_READ, row * rows, &mapped));
    fv_gpu_copy_rows(e->host, e->stride, mapped, row, row, rows);
    return fv_cl_unmap(q->base.device, q->down, buffer, mapped, NULL);
}

/* Enqueues the copy of a slot once `after` is done (NULL: at once), to or from staging memory if it
 * has any. */
static fovea_status enqueue_copy(struct cl_queue *q, uint32_t slot, uint32_t rows,
                                 const cl_event *after)
{
    fv_device *d = q->base.device;
    const fv_gpu_external *e = &q->base.frame[q->base.now].external[slot];
    const cl_mem buffer = buffer_of(&q->base, q->base.now, slot);
    cl_event *moved = &q->frame[q->base.now].transfer[slot].moved;
    char *host = e->staging ? e->staging : e->host;
    const uint64_t row = q->base.slot[slot].row_bytes;
    const uint32_t n = after ? 1 : 0;
    const size_t origin[3] = {0, 0, 0}, region[3] = {(size_t)row, rows, 1};
    const bool whole = e->staging || e->stride == row;
    if (q->base.slot[slot].output && whole)
        FV_CL_RUN(d, "an output", clEnqueueReadBuffer,
                  (q->down, buffer, CL_FALSE, 0, (size_t)(row * rows), host, n, after, moved));
    else if (q->base.slot[slot].output)
        FV_CL_RUN(d, "an output", clEnqueueReadBufferRect,
                  (q->down, buffer, CL_FALSE, origin, origin, region, (size_t)row, 0,
                   (size_t)e->stride, 0, host, n, after, moved));
    else if (whole)
        FV_CL_RUN(d, "an input", clEnqueueWriteBuffer,
                  (q->up, buffer, CL_FALSE, 0, (size_t)(row * rows), host, n, after, moved));
    else
        FV_CL_RUN(d, "an input", clEnqueueWriteBufferRect,
                  (q->up, buffer, CL_FALSE, origin, origin, region, (size_t)row, 0,
                   (size_t)e->stride, 0, host, n, after, moved));
    return FOVEA_OK;
}

/* Whether this slot handles the transfer: planes of a picture may share memory, which the first
 * plane's slot handles. */
static bool is_first_of(const fv_queue *q, uint32_t slot)
{
    const fv_gpu_external *e = q->frame[q->now].external;
    uint32_t first = 0;
    while (q->slot[first].output || e[first].import != e[slot].import)
        first++;
    return first == slot;
}

static fovea_status upload(fv_queue *base, uint32_t slot, uint32_t rows)
{
    struct cl_queue *q = cl_queue_of(base);
    const fv_gpu_external *e = &base->frame[base->now].external[slot];
    if (e->import)
        return is_first_of(base, slot)
                   ? fv_cl_acquire(base->device, q->compute, e->import, e->ready)
                   : FOVEA_OK;
    return base->device->limits.unified ? write_input(q, slot, rows)
                                        : enqueue_copy(q, slot, rows, NULL);
}

static fovea_status download(fv_queue *base, uint32_t slot, uint32_t rows)
{
    struct cl_queue *q = cl_queue_of(base);
    return base->device->limits.unified ? FOVEA_OK
                                        : enqueue_copy(q, slot, rows, &q->frame[base->now].last);
}

static fovea_status submitted(fv_queue *base)
{
    if (!base->device->limits.unified)
        FV_CL_RUN(base->device, NULL, clFlush, (cl_queue_of(base)->down));
    return FOVEA_OK;
}

/* ---- open ---- */

/* Creates the queues. If the driver refuses more than one, the first also serves transfers. */
static fovea_status make_queues(struct cl_queue *q)
{
    const fv_device *d = q->base.device;
    FV_TRY(fv_cl_queue_make(&q->plain, d, 0));
    q->compute = q->plain;
    if (fv_cl_queue_make(&q->up, d, 0) != FOVEA_OK)
        q->up = q->compute;
    /* One queue for both: frame n is read while frame n + 1 waits in `compute`. */
    if (d->limits.unified)
        q->down = q->up;
    else if (fv_cl_queue_make(&q->down, d, 0) != FOVEA_OK)
        q->down = q->compute;
    fv_cl_fences_open(&q->fences, d);
    return FOVEA_OK;
}

/* Switches between queues with and without timestamps. On some drivers (Intel's) timestamps cost
 * more than the commands they belong to, so only a caller who asks for times gets them. The plain
 * queue is kept for the commands that were recorded for it. Commands already in the old queue still
 * run. */
static fovea_status set_timed(struct cl_queue *q, bool timed)
{
    cl_command_queue next = q->plain, old = q->compute;
    if (timed == q->timed)
        return FOVEA_OK;
    if (timed)
        FV_TRY(fv_cl_queue_make(&next, q->base.device, CL_QUEUE_PROFILING_ENABLE));
    q->compute = next;
    q->up = q->up == old ? next : q->up;
    q->down = q->down == old ? next : q->down;
    q->timed = timed;
    if (!timed)
        fv_cl.clReleaseCommandQueue(old);
    return FOVEA_OK;
}

static fovea_status make_buffer(struct cl_queue *q, fv_gpu_external *e, const fv_slot *slot)
{
    const fv_device *d = q->base.device;
    const uint64_t size = fv_gpu_slot_bytes(slot);
    const char *what = slot->output ? "an output" : "an input";
    cl_mem buffer;
    if (size > d->limits.largest)
        return fv_fail(FOVEA_ENOMEM,
                       "%s needs %.1f MiB, but the device's buffers hold at most %.1f MiB; use a "
                       "smaller picture",
                       what, (double)size / (1 << 20), (double)d->limits.largest / (1 << 20));
    FV_TRY(fv_cl_buffer_make(&buffer, d, fv_cl_flags(d), size, NULL, what));
    e->buffer = (uintptr_t)buffer;
    /* Staging memory, because commands may use it for any length of time. */
    if (slot->staged && !d->limits.unified)
        FV_TRY(fv_mem_alloc(&e->staging, size, FV_MEM_PLAN, what));
    return FOVEA_OK;
}

static fovea_status make_frame(struct cl_queue *q, uint32_t f)
{
    FV_TRY(FV_MEM_ARRAY(&q->frame[f].transfer, q->base.slots, FV_MEM_PLAN, "the queue"));
    for (uint32_t i = 0; i < q->base.slots; i++)
        FV_TRY(make_buffer(q, &q->base.frame[f].external[i], &q->base.slot[i]));
    FV_TRY(map_inputs(q, f));
    for (uint32_t i = 0; i < q->base.slots; i++)
        FV_TRY(await_mapping(q, f, i));
    return FOVEA_OK;
}

static fovea_status open_queue(fv_queue *base)
{
    struct cl_queue *q = cl_queue_of(base);
    FV_TRY(FV_MEM_ARRAY(&q->wait, base->slots, FV_MEM_PLAN, "the queue"));
    FV_TRY(make_queues(q));
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++)
        FV_TRY(make_frame(q, f));
    return FOVEA_OK;
}

/* ---- close ---- */

static void drop_event(const struct cl_queue *q, cl_event *e)
{
    if (*e && !q->base.device->hung)
        fv_cl.clReleaseEvent(*e);
    *e = NULL;
}

static void drop_events(struct cl_queue *q, struct cl_frame *f)
{
    drop_event(q, &f->begun);
    drop_event(q, &f->last);
    for (uint32_t i = 0; f->transfer && i < q->base.slots; i++)
        drop_event(q, &f->transfer[i].moved);
}

static void stop_frame(fv_queue *base, uint32_t number, bool whole)
{
    struct cl_queue *q = cl_queue_of(base);
    struct cl_frame *f = &q->frame[number];
    fv_device *d = base->device;
    (void)whole;
    /* Commands that were enqueued before a call failed may still run, so they are waited for as
     * well. */
    if (!f->last && !d->hung &&
        fv_cl.clEnqueueMarkerWithWaitList(q->compute, 0, NULL, &f->last) != CL_SUCCESS)
        f->last = NULL;
    if (f->last)
        fv_cl.clFlush(q->compute);
    const cl_event computing[2] = {f->begun, f->last};
    for (uint32_t i = 0; i < 2 + base->slots; i++) {
        const cl_event event = i < 2 ? computing[i] : f->transfer[i - 2].moved;
        int error;
        if (!event)
            continue;
        const enum fv_gpu_end end =
            d->hung ? FV_GPU_LATE : fv_cl_poll(event, FV_GPU_PATIENCE, &error);
        if (end == FV_GPU_LATE)
            d->lost = d->hung = true;
        q->unsure = q->unsure || end == FV_GPU_LATE || end == FV_GPU_UNKNOWN;
    }
    drop_events(q, f);
}

/* Releases the device objects of a frame that is not in flight. */
static void release_frame(struct cl_queue *q, uint32_t number)
{
    const fv_device *d = q->base.device;
    struct cl_frame *f = &q->frame[number];
    fv_cl_recording_free(&f->recorded, d);
    for (uint32_t i = 0; f->transfer && i < q->base.slots; i++) {
        const cl_mem buffer = buffer_of(&q->base, number, i);
        /* rusticl can unmap a buffer only once its mapping is complete. */
        if (f->transfer[i].mapped && !d->lost && await_mapping(q, number, i) == FOVEA_OK)
            fv_cl_unmap(q->base.device, q->up, buffer, f->transfer[i].mapped, NULL);
        fv_cl_buffer_free(d, buffer);
    }
    drop_events(q, f);
}

static bool has_staging(const fv_queue *q)
{
    for (uint32_t i = 0; q->frame[0].external && i < q->slots; i++)
        if (q->frame[0].external[i].staging)
            return true;
    return false;
}

/* Abandoned queues. They are never freed, because the device may still access their memory. */
static _Atomic(struct cl_queue *) given_up;

static bool close_queue(fv_queue *base)
{
    struct cl_queue *q = cl_queue_of(base);
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++)
        release_frame(q, f);
    fv_cl_fences_close(q->fences, base->device);
    if (!base->device->hung) {
        if (q->down && q->down != q->compute && q->down != q->up)
            fv_cl.clReleaseCommandQueue(q->down);
        if (q->up && q->up != q->compute)
            fv_cl.clReleaseCommandQueue(q->up);
        if (q->timed)
            fv_cl.clReleaseCommandQueue(q->compute);
        if (q->plain)
            fv_cl.clReleaseCommandQueue(q->plain);
    }
    fv_cl_trace_drop(&q->trace, base->device);
    fv_cl_trace_open(&q->trace, NULL);
    if (q->unsure && has_staging(base)) {
        q->next = atomic_load(&given_up);
        while (!atomic_compare_exchange_weak(&given_up, &q->next, q))
            ;
        return false;
    }
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++) {
        for (uint32_t i = 0; base->frame[f].external && i < base->slots; i++)
            fv_mem_free(base->frame[f].external[i].staging);
        fv_mem_free(q->frame[f].transfer);
    }
    fv_mem_free(q->wait);
    return true;
}

/* ---- one dispatch ---- */

/* Sets an argument only if it differs from that of the previous call: from frame to frame most are
 * the same. */
static fovea_status set_changed(fv_cl_bound *b, uint32_t index, void *before, const void *now,
                                size_t size)
{
    if (b->set && memcmp(before, now, size) == 0)
        return FOVEA_OK;
    memcpy(before, now, size);
    return fv_cl_set_arg(b, index, size, now);
}

/* The buffer that a frame's kernels read or write for an external slot. */
static cl_mem read_from(const struct cl_queue *q, uint32_t slot)
{
    const fv_import *import = q->base.frame[q->base.now].external[slot].import;
    return import ? fv_cl_imported(import) : buffer_of(&q->base, q->base.now, slot);
}

/* Sets where an imported picture begins and its row stride. Also forgets the buffer that was set
 * before, since a new buffer may have the same address as one that was freed. */
static void place_imported(const struct cl_queue *q, fv_cl_bound *b, uint32_t o, cl_uint at[2])
{
    const fv_operand *op = &b->step.base.l.operand[o];
    if (op->ref.space != FV_SPACE_EXTERNAL)
        return;
    const fv_gpu_external *e = &q->base.frame[q->base.now].external[op->ref.slot];
    if (!e->import)
        return;
    at[0] += (cl_uint)(e->at / fv_type_size(op->type));
    at[1] = (cl_uint)(e->stride / fv_type_size(op->type));
    b->buffer[o] = NULL;
}

static fovea_status set_operands(const struct cl_queue *q, fv_cl_bound *b,
                                 const fv_gpu_dispatch *now, fv_gpu_before *out)
{
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_operand *op = &b->step.base.l.operand[o];
        cl_uint at[2] = {now->at[o], now->ld[o]};
        place_imported(q, b, o, at);
        FV_TRY(set_changed(b, 2 * o + 1, b->at[o], at, sizeof at));
        out->at[o] = at[0];
        out->ld[o] = at[1];
        if (op->ref.space == FV_SPACE_EXTERNAL) {
            cl_mem buffer = read_from(q, op->ref.slot);
            out->buffer[o] = (uintptr_t)buffer;
            FV_TRY(set_changed(b, 2 * o, &b->buffer[o], &buffer, sizeof buffer));
        } else if (op->ref.space != FV_SPACE_NONE) {
            out->buffer[o] = op->ref.mem->handle;
        }
    }
    return FOVEA_OK;
}

static fovea_status set_arguments(const struct cl_queue *q, fv_cl_bound *b,
                                  const fv_gpu_dispatch *now, fv_gpu_before *out)
{
    const uint32_t first = 2 * b->step.operands + FV_CL_ROW0;
    const cl_uint call[4] = {now->row0, now->rows, now->first, now->groups};
    FV_TRY(set_operands(q, b, now, out));
    for (uint32_t i = 0; i < 4; i++)
        FV_TRY(set_changed(b, first + i, &b->call[i], &call[i], sizeof call[i]));
    return FOVEA_OK;
}

/* Enqueues another library's commands of a dispatch. Only the event of the last one is known, so in
 * a traced frame a marker is enqueued before them. */
static fovea_status run_before(struct cl_queue *q, const fv_cl_bound *b, fv_gpu_before *before,
                               uint32_t row0)
{
    fv_device *d = q->base.device;
    cl_event since = NULL;
    void *done = NULL;
    if (q->trace.to) {
        FV_CL_RUN(d, NULL, clEnqueueMarkerWithWaitList, (q->compute, 0, NULL, &since));
        before->event = &done;
    }
    const fovea_status status = b->step.code->before(&b->step.base.l, before);
    if (status == FOVEA_EDEVICE)
        d->lost = true;
    if (q->trace.to)
        fv_cl_trace_note(&q->trace, d, &b->step.base.l, row0, before->rows, since, done);
    return status;
}

static fovea_status enqueue(const struct cl_queue *q, const fv_gpu_step *s, cl_kernel kernel,
                            const size_t count[3], cl_event *done)
{
    const size_t items[3] = {count[0] * s->group, count[1], count[2]}, local[3] = {s->group, 1, 1};
    if (q->recording)
        return fv_cl_record_kernel(q->recording, q->base.device, kernel, items, local);
    FV_CL_RUN(q->base.device, s->base.l.kernel->name, clEnqueueNDRangeKernel,
              (q->compute, kernel, 3, NULL, items, local, 0, NULL, done));
    return FOVEA_OK;
}

/* Enqueues the pre-passes, whose time counts as the kernel's, and then the kernel. */
static fovea_status enqueue_all(struct cl_queue *q, const fv_cl_bound *b,
                                const fv_gpu_dispatch *now)
{
    const fv_gpu_step *s = &b->step;
    cl_event since = NULL, done = NULL;
    if (q->trace.to && now->passes)
        FV_CL_RUN(q->base.device, NULL, clEnqueueMarkerWithWaitList, (q->compute, 0, NULL, &since));
    fovea_status status = FOVEA_OK;
    for (uint32_t i = 0; i < now->passes; i++)
        FV_THEN(status, enqueue(q, s, b->pre_pass[i], now->pre_pass[i], NULL));
    FV_THEN(status, enqueue(q, s, b->kernel, now->count, q->trace.to ? &done : NULL));
    if (q->trace.to)
        fv_cl_trace_note(&q->trace, q->base.device, &s->base.l, now->row0, now->rows, since, done);
    return status;
}

static fovea_status record_dispatch(struct cl_queue *q, const fv_gpu_step *s,
                                    const fv_gpu_dispatch *now)
{
    fv_device *d = q->base.device;
    if (s->code->before)
        return fv_fail(FOVEA_ENOTSUP, "kernel %s: commands of another library cannot be recorded",
                       s->base.l.kernel->name);
    const fv_gpu_rates rates = d->dispatch > 0 ? fv_cl_measure(d) : (fv_gpu_rates){.tried = false};
    return fv_cl_record_dispatch(q->recording, d, q->plain, now->passes + 1,
                                 fv_gpu_step_seconds(s, now->rows, &rates));
}

static fovea_status dispatch(fv_queue *base, fv_gpu_step *step, const fv_gpu_dispatch *now)
{
    struct cl_queue *q = cl_queue_of(base);
    fv_cl_bound *b = (fv_cl_bound *)step;
    if (q->replayed) {
        q->replayed--;
        return FOVEA_OK;
    }
    if (q->recording)
        FV_TRY(record_dispatch(q, step, now));
    fv_gpu_before before = {.device = base->device, .queue = q->compute, .rows = now->rows};
    const fovea_status status = set_arguments(q, b, now, &before);
    b->set = status == FOVEA_OK;
    FV_TRY(status);
    if (step->code->before) {
        before.scratch = step->base.l.scratch_mem->handle;
        FV_TRY(run_before(q, b, &before, now->row0));
    }
    return enqueue_all(q, b, now);
}

/* ---- the computing ---- */

static fovea_status flush(fv_queue *base)
{
    if (!cl_queue_of(base)->recording)
        FV_CL_RUN(base->device, NULL, clFlush, (cl_queue_of(base)->compute));
    return FOVEA_OK;
}

/* Whether the frame reads imported memory. Recorded commands read the plan's own memory, so such a
 * frame is not replayed. */
static bool reads_imports(const fv_queue *q)
{
    const fv_gpu_external *e = q->frame[q->now].external;
    for (uint32_t i = 0; i < q->slots; i++)
        if (!q->slot[i].output && e[i].import)
            return true;
    return false;
}

/* Replays the frame's recording, if there is one. If the driver refuses, this frame and all later
 * ones are enqueued call by call. */
static fovea_status enqueue_sweeps(struct cl_queue *q, const fv_sweep *s, uint32_t count)
{
    fv_cl_recording *r = &q->frame[q->base.now].recorded;
    q->replayed = 0;
    if (!q->timed && !reads_imports(&q->base) && r->key &&
        r->key == fv_gpu_frame_key(&q->base, s, count)) {
        FV_TRY(fv_cl_replay(r, q->base.device, q->plain, &q->replayed));
        if (q->replayed == r->dispatches)
            return FOVEA_OK;
        fv_log("cl: the commands of a frame are enqueued one by one: %s", fovea_error());
        r->key = 0;
    }
    return fv_gpu_enqueue(&q->base, s, count);
}

/* Lists the events that computing waits for: the arrival of inputs. */
static uint32_t list_waits(struct cl_queue *q, const struct cl_frame *f)
{
    const fv_gpu_external *e = q->base.frame[q->base.now].external;
    uint32_t waits = 0;
    for (uint32_t i = 0; i < q->base.slots; i++) {
        const cl_event there = e[i].import ? e[i].ready : f->transfer[i].moved;
        if (!q->base.slot[i].output && there)
            q->wait[waits++] = there;
    }
    return waits;
}

static fovea_status release_imports(struct cl_queue *q)
{
    const fv_gpu_external *e = q->base.frame[q->base.now].external;
    for (uint32_t i = 0; i < q->base.slots; i++)
        if (!q->base.slot[i].output && e[i].import && is_first_of(&q->base, i))
            FV_TRY(fv_cl_release(q->base.device, q->compute, e[i].import));
    return FOVEA_OK;
}

static fovea_status compute(fv_queue *base, const fv_sweep *s, uint32_t count)
{
    struct cl_queue *q = cl_queue_of(base);
    struct cl_frame *f = &q->frame[base->now];
    fv_device *d = base->device;
    fv_cl_trace_drop(&q->trace, d); /* of the frame before */
    FV_CL_RUN(d, NULL, clFlush, (q->up));
    const uint32_t waits = list_waits(q, f);
    FV_CL_RUN(d, NULL, clEnqueueMarkerWithWaitList,
              (q->compute, waits, waits ? q->wait : NULL, &f->begun));
    FV_TRY(enqueue_sweeps(q, s, count));
    FV_TRY(release_imports(q));
    FV_CL_RUN(d, NULL, clEnqueueMarkerWithWaitList, (q->compute, 0, NULL, &f->last));
    return flush(base);
}

static fovea_status await_frame(fv_queue *base, uint32_t number, double deadline, double expect)
{
    struct cl_queue *q = cl_queue_of(base);
    const struct cl_frame *f = &q->frame[number];
    fv_device *d = base->device;
    FV_TRY(fv_cl_await(d, f->last, fv_gpu_left(deadline), expect));
    base->seen = fv_machine_seconds();
    for (uint32_t i = 0; i < base->slots; i++) {
        if (d->limits.unified && base->slot[i].output)
            FV_TRY(read_output(q, number, i));
        else if (f->transfer[i].moved)
            FV_TRY(fv_cl_await(d, f->transfer[i].moved, fv_gpu_left(deadline), 0));
    }
    return FOVEA_OK;
}

enum { LEAST = 1000 }; /* nanoseconds; a clock that shows less for a frame is unusable */

/* Seconds between the markers. */
static double device_seconds(struct cl_queue *q, const struct cl_frame *f)
{
    cl_ulong asked, begin = 0, end = 0;
    if (!q->timed || q->clockless)
        return 0;
    q->clockless = !fv_cl_event_times(f->begun, &asked, &begin) ||
                   !fv_cl_event_times(f->last, &asked, &end) || end < begin + LEAST;
    return q->clockless ? 0 : (double)(end - begin) * 1e-9;
}

static double complete_frame(fv_queue *base, uint32_t number)
{
    struct cl_queue *q = cl_queue_of(base);
    struct cl_frame *f = &q->frame[number];
    const double seconds = device_seconds(q, f);
    fv_cl_trace_finish(&q->trace, base->device, f->begun);
    drop_events(q, f);
    map_inputs(q, number); /* an error here is reported when the next frame is submitted */
    return seconds;
}

/* ---- recorded ---- */

static fovea_status record_frame(struct cl_queue *q, const fv_sweep *s, uint32_t count)
{
    fv_cl_recording *r = &q->frame[q->base.now].recorded;
    const uint64_t key = fv_gpu_frame_key(&q->base, s, count);
    if (r->key == key)
        return FOVEA_OK;
    fv_cl_recording_free(r, q->base.device);
    q->recording = r;
    q->replayed = 0;
    const fovea_status status = fv_gpu_enqueue(&q->base, s, count);
    q->recording = NULL;
    FV_TRY(status);
    return fv_cl_record_end(r, q->base.device, key);
}

fovea_status fv_cl_prepare(fv_queue *base, const fv_sweep *s, uint32_t count, fv_portion most)
{
    struct cl_queue *q = cl_queue_of(base);
    if (!base->device->recorder.by || q->timed)
        return FOVEA_OK;
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++) {
        base->now = f;
        base->frame[f].most = most;
        if (record_frame(q, s, count) == FOVEA_OK)
            continue;
        fv_log("cl: the commands of a frame are enqueued one by one: %s", fovea_error());
        fv_cl_recording_free(&q->frame[f].recorded, base->device);
    }
    return FOVEA_OK;
}

void *fv_cl_read_event(const fv_queue *base, fv_fence f)
{
    return ((const struct cl_queue *)base)->frame[f % FV_GPU_FRAMES].last;
}

fovea_status fv_cl_read_fence(fv_queue *base, fv_fence f, int *fd)
{
    struct cl_queue *q = cl_queue_of(base);
    FV_TRY(fv_cl_ready(base->device));
    return fv_cl_fences_export(q->fences, base->device, q->frame[f % FV_GPU_FRAMES].last, fd);
}

fovea_status fv_cl_queue_trace(fv_queue *base, fv_trace *t)
{
    struct cl_queue *q = cl_queue_of(base);
    FV_TRY(fv_cl_ready(base->device));
    fv_cl_trace_drop(&q->trace, base->device);
    FV_TRY(fv_cl_trace_open(&q->trace, NULL));
    const fovea_status status = set_timed(q, t || q->wanted);
    if (t && (q->clockless || status != FOVEA_OK))
        return fv_fail(FOVEA_ENOTSUP, "the device's driver reports no execution times");
    return fv_cl_trace_open(&q->trace, t);
}

fovea_status fv_cl_queue_timed(fv_queue *base, bool wanted)
{
    struct cl_queue *q = cl_queue_of(base);
    FV_TRY(fv_cl_ready(base->device));
    q->wanted = wanted;
    if (set_timed(q, wanted || q->trace.to) != FOVEA_OK)
        fv_log("frames are timed by the host's clock: %s", fovea_error());
    return FOVEA_OK;
}

static const fv_gpu_interface interface = {
    .size = sizeof(struct cl_queue),
    .ready = fv_cl_ready,
    .open = open_queue,
    .close = close_queue,
    .upload = upload,
    .compute = compute,
    .dispatch = dispatch,
    .flush = flush,
    .download = download,
    .submitted = submitted,
    .await = await_frame,
    .complete = complete_frame,
    .stop = stop_frame,
};

fovea_status fv_cl_queue_open(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                              uint32_t phases, fv_queue **out)
{
    (void)scratch, (void)phases;
    return fv_gpu_queue_open(out, &interface, d, slot, slots);
}
