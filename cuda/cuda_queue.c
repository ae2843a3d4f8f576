/* cuda_queue.c: frames: the caller's memory to the device, the calls of all sweeps, the results
 * back.
 *
 * Two frames may be in flight. What is computed with is there once, so frames are computed one
 * after the other, on the plan's own stream; but inputs and outputs are there twice, with memory of
 * the host's that cannot be paged out, and are moved on streams of their own:
 *
 *     up        input n+1
 *     compute   frame n ............
 *     down                            output n-1
 *
 * Where host and device share their memory nothing is moved: kernels read inputs from that memory
 * of the host's and write outputs to it. (Everything else lies in memory of the device's also
 * there: what of the host's the device reads it does not keep in its caches.)
 *
 * What a frame computes is recorded before the first one, once for each that may be in flight, and
 * replayed with one call.
 */
#include <assert.h>
#include <string.h>

#include "cuda/cuda_graph.h"
#include "cuda/cuda_trace.h"
#include "mem.h"
#include "os_machine.h"
#include "walk.h"

/* One of the caller's matrices in one frame. */
struct external {
    CUdeviceptr buffer;
    char *staging; /* the host's memory that it is moved by, or is */
    char *host;    /* the caller's */
    uint64_t stride;
};

struct frame {
    struct external *external; /* one per slot */
    uint32_t rows;             /* at most */
    /* Inputs are there; the computing's begin and end; outputs are there. */
    CUevent arrived, begun, last, landed;
    double begin;
    fv_cuda_graphs graphs;
};

struct fv_queue {
    fv_device *device;
    CUstream compute, up, down;
    fv_slot *slot;
    uint32_t slots;
    struct frame frame[FV_CUDA_FRAMES]; /* number f at f % FV_CUDA_FRAMES */
    fv_fence submitted, done;
    double expect, landed; /* seconds that the last frame took, and when it was done */
    bool graphs;           /* the driver records and replays */
    bool recording;        /* nothing runs: what fails is not the device */
    /* of the frame that is being submitted: */
    struct frame *now;
    fovea_status failed;
    fv_cuda_trace trace;
};

fv_device *fv_cuda_queue_device(const fv_queue *q)
{
    return q->device;
}

/* ---- the caller's memory ---- */

static fovea_status place(fv_queue *q, uint32_t slot, char *host, uint64_t stride)
{
    struct external *e = &q->frame[(q->submitted + 1) % FV_CUDA_FRAMES].external[slot];
    const uint64_t row = q->slot[slot].row_bytes;
    e->host = host;
    e->stride = stride ? stride : row;
    assert(e->stride >= row);
    return FOVEA_OK;
}

fovea_status fv_cuda_upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    return place(q, slot, (char *)(uintptr_t)src, stride); /* inputs are only read */
}

fovea_status fv_cuda_download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    return place(q, slot, dst, stride);
}

static uint32_t rows_of(const fv_queue *q, const struct frame *f, uint32_t slot)
{
    return q->slot[slot].rows < f->rows ? q->slot[slot].rows : f->rows;
}

/* Of a frame that is done. */
static void give_outputs(const fv_queue *q, const struct frame *f)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const struct external *e = &f->external[i];
        const uint64_t row = q->slot[i].row_bytes;
        if (q->slot[i].output)
            fv_gpu_copy_rows(e->host, e->stride, e->staging, row, row, rows_of(q, f, i));
    }
}

/* ---- open ---- */

static fovea_status make_external(struct external *e, const fv_device *d, const fv_slot *slot)
{
    const uint64_t size = fv_size_mul(slot->row_bytes, slot->rows);
    const char *what = slot->output ? "an output" : "an input";
    const unsigned shared = d->limits.integrated ? CU_MEMHOSTALLOC_DEVICEMAP : 0;
    void *staging;
    FV_CUDA_TRY(what, cuMemHostAlloc,
                (&staging, (size_t)(size ? size : 1), CU_MEMHOSTALLOC_PORTABLE | shared));
    e->staging = staging;
    if (!d->limits.integrated)
        return fv_cuda_alloc(&e->buffer, size, what);
    FV_CUDA_TRY(what, cuMemHostGetDevicePointer, (&e->buffer, staging, 0));
    return FOVEA_OK;
}

static fovea_status make_event(CUevent *out, unsigned flags)
{
    CUevent event;
    FV_CUDA_TRY(NULL, cuEventCreate, (&event, flags));
    *out = event;
    return FOVEA_OK;
}

static fovea_status make_frame(fv_queue *q, struct frame *f)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof *f->external, FV_MEM_PLAN, "the queue"));
    f->external = memory;
    for (uint32_t i = 0; i < q->slots; i++)
        FV_TRY(make_external(&f->external[i], q->device, &q->slot[i]));
    FV_TRY(make_event(&f->arrived, CU_EVENT_DISABLE_TIMING));
    FV_TRY(make_event(&f->begun, CU_EVENT_DEFAULT));
    FV_TRY(make_event(&f->last, CU_EVENT_DEFAULT));
    return make_event(&f->landed, CU_EVENT_DISABLE_TIMING);
}

static fovea_status make_stream(CUstream *out)
{
    CUstream stream;
    FV_CUDA_TRY(NULL, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
    *out = stream;
    return FOVEA_OK;
}

static fovea_status fill(fv_queue *q, const fv_slot *slot)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, q->slots, sizeof *q->slot, FV_MEM_PLAN, "the queue"));
    q->slot = memory;
    if (q->slots) /* a step that is rehearsed has none */
        memcpy(q->slot, slot, q->slots * sizeof *slot);
    FV_TRY(make_stream(&q->compute));
    FV_TRY(make_stream(&q->up));
    FV_TRY(make_stream(&q->down));
    for (int i = 0; i < FV_CUDA_FRAMES; i++)
        FV_TRY(make_frame(q, &q->frame[i]));
    return FOVEA_OK;
}

fovea_status fv_cuda_queue_open(fv_device *d, const fv_slot *slot, uint32_t slots, fv_queue **out)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_queue), FV_MEM_PLAN, "the queue"));
    fv_queue *q = memory;
    q->device = d;
    q->slots = slots;
    q->graphs = fv_cuda_has_graphs();
    const fovea_status status = fill(q, slot);
    if (status != FOVEA_OK) {
        fv_cuda_queue_close(q);
        return status;
    }
    *out = q;
    return FOVEA_OK;
}

/* ---- close ---- */

#define PATIENCE 2.0 /* seconds that a frame nobody waited for is given */

/* Waits until nothing of the frame is under way, so that the caller's memory and ours may go; what
 * does not come back is given up with all that it may use. */
static void stop_frame(fv_queue *q, const struct frame *f)
{
    fv_device *d = q->device;
    const CUevent events[] = {f->arrived, f->last, f->landed};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        CUresult error;
        if (!d->hung && fv_cuda_poll(events[i], PATIENCE, 0, NULL, &error) == FV_CUDA_LATE)
            d->lost = d->hung = true;
    }
}

/* The same of a frame that was enqueued in part. */
static void abandon_frame(fv_queue *q, const struct frame *f)
{
    fv_cuda.cuEventRecord(f->arrived, q->up);
    fv_cuda.cuEventRecord(f->last, q->compute);
    fv_cuda.cuEventRecord(f->landed, q->down);
    stop_frame(q, f);
}

static void free_frame(const fv_queue *q, struct frame *f)
{
    const CUevent events[] = {f->arrived, f->begun, f->last, f->landed};
    fv_cuda_graphs_free(&f->graphs);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            fv_cuda.cuEventDestroy(events[i]);
    for (uint32_t i = 0; f->external && i < q->slots; i++) {
        if (f->external[i].buffer && !q->device->limits.integrated)
            fv_cuda.cuMemFree(f->external[i].buffer);
        if (f->external[i].staging)
            fv_cuda.cuMemFreeHost(f->external[i].staging);
    }
}

void fv_cuda_queue_close(fv_queue *q)
{
    const CUstream streams[] = {q->compute, q->up, q->down};
    while (q->done < q->submitted)
        stop_frame(q, &q->frame[++q->done % FV_CUDA_FRAMES]);
    fv_cuda_trace_open(&q->trace, q->device, NULL);
    for (int i = 0; i < FV_CUDA_FRAMES; i++) {
        if (!q->device->hung)
            free_frame(q, &q->frame[i]);
        fv_mem_free(q->frame[i].external);
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] && !q->device->hung)
            fv_cuda.cuStreamDestroy(streams[i]);
    fv_mem_free(q->slot);
    fv_mem_free(q);
}

/* ---- one dispatch ---- */

static void set_operands(const fv_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_operand *op = &b->step.base.l.operand[o];
        b->args.at[o][0] = now->at[o];
        b->args.at[o][1] = now->ld[o];
        if (op->ref.space == FV_SPACE_EXTERNAL)
            b->args.base[o] = q->now->external[op->ref.slot].buffer;
    }
    b->args.row0 = now->row0;
    b->args.rows = now->rows;
    b->args.first = now->first;
    b->args.groups = now->groups;
}

/* Another library's part of a dispatch. */
static fovea_status run_before(fv_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    const fv_launch *l = &b->step.base.l;
    fv_gpu_before before = {.device = q->device,
                            .queue = q->compute,
                            .scratch = l->scratch_mem->handle,
                            .rows = now->rows,
                            .own = &b->own};
    memcpy(before.buffer, b->args.base, sizeof before.buffer);
    memcpy(before.at, now->at, sizeof before.at);
    memcpy(before.ld, now->ld, sizeof before.ld);
    const fovea_status status = b->step.code->before(l, &before);
    if (status == FOVEA_EDEVICE && !q->recording)
        q->device->lost = true;
    return status;
}

static fovea_status launch_function(fv_queue *q, fv_cuda_bound *b, CUfunction function,
                                    const size_t count[3])
{
    const char *name = b->step.base.l.kernel->name;
    const CUresult error =
        fv_cuda.cuLaunchKernel(function, (unsigned)count[0], (unsigned)count[1], (unsigned)count[2],
                               b->step.group, 1, 1, b->dynamic, q->compute, b->parameter, NULL);
    if (error == CUDA_SUCCESS)
        return FOVEA_OK;
    return q->recording ? fv_cuda_fail(error, "cuLaunchKernel", name)
                        : fv_cuda_lose(q->device, error, "cuLaunchKernel", name);
}

static fovea_status launch(fv_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    if (b->step.code->before)
        FV_TRY(run_before(q, b, now));
    for (int i = 0; i < FV_GPU_PASSES && b->ahead[i] && now->groups > 1; i++)
        FV_TRY(launch_function(q, b, b->ahead[i], now->ahead[i]));
    return launch_function(q, b, b->function, now->count);
}

/* The rows [from, from + rows) of a call. */
static fovea_status dispatch(fv_queue *q, fv_cuda_bound *b, uint32_t width, const fv_call *c,
                             uint32_t from, uint32_t rows)
{
    const fv_launch *l = &b->step.base.l;
    fv_gpu_dispatch now;
    fv_gpu_dispatch_fill(&now, &b->step, width, c, from, rows);
    set_operands(q, b, &now);
    if (!q->trace.to)
        return launch(q, b, &now);
    FV_TRY(fv_cuda_trace_begin(&q->trace, q->device, q->compute, l, now.row0, rows));
    FV_TRY(launch(q, b, &now));
    return fv_cuda_trace_end(&q->trace, q->device, q->compute);
}

static void call(void *ctx, fv_bound *step, uint32_t width, fv_call *c)
{
    fv_queue *q = ctx;
    fv_cuda_bound *b = (fv_cuda_bound *)step;
    const uint32_t even = fv_gpu_step_cut(&b->step, c->rows);
    for (uint32_t from = 0; from < c->rows && q->failed == FOVEA_OK; from += even) {
        const uint32_t left = c->rows - from;
        q->failed = dispatch(q, b, width, c, from, left < even ? left : even);
    }
}

/* ---- submit ---- */

static fovea_status bring_inputs(fv_queue *q)
{
    fv_device *d = q->device;
    struct frame *f = q->now;
    for (uint32_t i = 0; i < q->slots; i++) {
        const struct external *e = &f->external[i];
        const uint64_t row = q->slot[i].row_bytes;
        const uint32_t rows = rows_of(q, f, i);
        if (q->slot[i].output)
            continue;
        fv_gpu_copy_rows(e->staging, row, e->host, e->stride, row, rows);
        if (!d->limits.integrated)
            FV_CUDA_RUN(d, "an input", cuMemcpyHtoDAsync,
                        (e->buffer, e->staging, (size_t)(row * rows), q->up));
    }
    FV_CUDA_RUN(d, NULL, cuEventRecord, (f->arrived, q->up));
    FV_CUDA_RUN(d, NULL, cuStreamWaitEvent, (q->compute, f->arrived, 0));
    return FOVEA_OK;
}

static fovea_status enqueue(fv_queue *q, const fv_sweep *s, uint32_t count)
{
    q->failed = FOVEA_OK;
    for (uint32_t i = 0; i < count && q->failed == FOVEA_OK; i++)
        fv_walk_sweep(&s[i], q->now->rows, call, q);
    return q->failed;
}

static fovea_status compute(fv_queue *q, const fv_sweep *s, uint32_t count)
{
    fv_device *d = q->device;
    const CUgraphExec graph =
        q->graphs && !q->trace.to
            ? fv_cuda_graph_find(&q->now->graphs, fv_cuda_graph_key(s, count, q->now->rows))
            : NULL;
    FV_CUDA_RUN(d, NULL, cuEventRecord, (q->now->begun, q->compute));
    if (graph)
        FV_CUDA_RUN(d, NULL, cuGraphLaunch, (graph, q->compute));
    else
        FV_TRY(enqueue(q, s, count));
    FV_CUDA_RUN(d, NULL, cuEventRecord, (q->now->last, q->compute));
    return FOVEA_OK;
}

/* ---- recorded ---- */

/* What q->now computes, unless that was recorded before. */
static fovea_status record(fv_queue *q, const fv_sweep *s, uint32_t count)
{
    fv_cuda_graphs *graphs = &q->now->graphs;
    const uint64_t key = fv_cuda_graph_key(s, count, q->now->rows);
    if (fv_cuda_graph_find(graphs, key))
        return FOVEA_OK;
    FV_TRY(fv_cuda_graph_begin(q->compute));
    q->recording = true;
    const fovea_status status = enqueue(q, s, count);
    q->recording = false;
    if (status != FOVEA_OK) {
        fv_cuda_graph_cancel(q->compute);
        return status;
    }
    return fv_cuda_graph_end(graphs, key, q->compute);
}

fovea_status fv_cuda_prepare(fv_queue *q, const fv_sweep *s, uint32_t count, uint32_t rows)
{
    assert(q->done == q->submitted);
    for (int i = 0; i < FV_CUDA_FRAMES && q->graphs; i++) {
        q->now = &q->frame[i];
        q->now->rows = rows;
        q->graphs = record(q, s, count) == FOVEA_OK;
    }
    if (!q->graphs) {
        if (fv_cuda_has_graphs())
            fv_log("cuda: the calls of a frame are made one by one: %s", fovea_error());
        return FOVEA_OK;
    }
    return fv_cuda_finish(q->device, q->compute, 0);
}

static fovea_status take_outputs(fv_queue *q)
{
    fv_device *d = q->device;
    struct frame *f = q->now;
    FV_CUDA_RUN(d, NULL, cuStreamWaitEvent, (q->down, f->last, 0));
    for (uint32_t i = 0; i < q->slots && !d->limits.integrated; i++) {
        const struct external *e = &f->external[i];
        if (q->slot[i].output)
            FV_CUDA_RUN(d, "an output", cuMemcpyDtoHAsync,
                        (e->staging, e->buffer, (size_t)(q->slot[i].row_bytes * rows_of(q, f, i)),
                         q->down));
    }
    FV_CUDA_RUN(d, NULL, cuEventRecord, (f->landed, q->down));
    return FOVEA_OK;
}

fovea_status fv_cuda_submit(fv_queue *q, const fv_sweep *s, uint32_t count, uint32_t rows,
                            fv_fence *out)
{
    assert(q->submitted - q->done < FV_CUDA_FRAMES);
    q->now = &q->frame[(q->submitted + 1) % FV_CUDA_FRAMES];
    q->now->rows = rows;
    q->now->begin = fv_machine_seconds();
    if (q->trace.to)
        q->trace.to->used = 0;
    fovea_status status = bring_inputs(q);
    if (status == FOVEA_OK)
        status = compute(q, s, count);
    if (status == FOVEA_OK)
        status = take_outputs(q);
    if (status != FOVEA_OK) {
        abandon_frame(q, q->now);
        return status;
    }
    *out = ++q->submitted;
    return FOVEA_OK;
}

/* ---- wait ---- */

/* Seconds between the events; by the host's clock where the driver tells none. */
static double device_seconds(const fv_queue *q, const struct frame *f)
{
    float ms;
    if (fv_cuda.cuEventElapsedTime(&ms, f->begun, f->last) == CUDA_SUCCESS && ms >= 1e-3f)
        return ms * 1e-3;
    return fv_machine_seconds() - (f->begin > q->landed ? f->begin : q->landed);
}

fovea_status fv_cuda_wait(fv_queue *q, fv_fence fence, double timeout, double *seconds)
{
    const double deadline = timeout < 0 ? -1 : fv_machine_seconds() + timeout;
    *seconds = 0;
    while (q->done < fence) {
        struct frame *f = &q->frame[(q->done + 1) % FV_CUDA_FRAMES];
        const double from = f->begin > q->landed ? f->begin : q->landed;
        const double expect = from + q->expect - fv_machine_seconds();
        const fovea_status status =
            fv_cuda_await(q->device, f->landed, fv_gpu_left(deadline), expect);
        if (status == FOVEA_ETIMEOUT)
            return status;
        if (status == FOVEA_OK) {
            give_outputs(q, f);
            *seconds = q->expect = device_seconds(q, f);
            if (q->trace.to)
                fv_cuda_trace_settle(&q->trace, f->begun);
            q->landed = fv_machine_seconds();
        } else {
            stop_frame(q, f);
        }
        q->done++;
        FV_TRY(status);
    }
    return FOVEA_OK;
}

fovea_status fv_cuda_queue_trace(fv_queue *q, fv_trace *t)
{
    return fv_cuda_trace_open(&q->trace, q->device, t);
}
