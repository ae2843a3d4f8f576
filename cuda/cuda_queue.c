/* cuda_queue.c: CUDA's part of the frames of gpu_queue.h. Uploads, computing and downloads have
 * separate streams.
 *
 * The caller's matrices are moved through pinned host memory. Where host and device share their
 * memory, kernels write outputs to the pinned memory directly, each number once. Inputs are copied
 * to device memory on such devices too: a device does not cache what it reads of host memory, and
 * kernels read the pixels of a picture several times.
 *
 * The computation of a frame is recorded before the first frame, once for each frame that may be in
 * flight, and replayed with one call. If a frame's picture has another address than the previous
 * one, the arguments of the kernels that read it are updated before the replay.
 */
#include <assert.h>
#include <string.h>

#include "cuda/cuda_graph.h"
#include "cuda/cuda_import.h"
#include "cuda/cuda_trace.h"
#include "gpu/gpu_queue.h"
#include "platform/os/os_machine.h"

struct cuda_frame {
    /* Events: inputs have arrived; computing has begun, and ended; outputs have arrived. */
    CUevent arrived, begun, last, landed;
    fv_cuda_graphs graphs;
};

struct cuda_queue {
    fv_queue base;
    CUstream compute, up, down;
    struct cuda_frame frame[FV_GPU_FRAMES];
    bool graphs;    /* the driver records and replays */
    bool recording; /* recording, so nothing runs: an error is not the device's */
    fv_cuda_trace trace;
};

static struct cuda_queue *cuda_queue_of(fv_queue *q)
{
    return (struct cuda_queue *)q;
}

/* ---- open ---- */

/* Whether kernels access the host memory of a slot directly. */
static bool is_mapped(const fv_device *d, const fv_slot *slot)
{
    return d->limits.integrated && slot->output;
}

static fovea_status make_external(fv_gpu_external *e, const fv_device *d, const fv_slot *slot)
{
    const uint64_t size = fv_gpu_slot_bytes(slot);
    const char *what = slot->output ? "an output" : "an input";
    const unsigned shared = is_mapped(d, slot) ? CU_MEMHOSTALLOC_DEVICEMAP : 0;
    void *staging;
    CUdeviceptr buffer = 0;
    FV_CUDA_TRY(what, cuMemHostAlloc,
                (&staging, (size_t)(size ? size : 1), CU_MEMHOSTALLOC_PORTABLE | shared));
    e->staging = staging;
    if (is_mapped(d, slot))
        FV_CUDA_TRY(what, cuMemHostGetDevicePointer, (&buffer, staging, 0));
    else
        FV_TRY(fv_cuda_alloc(&buffer, size, what));
    e->buffer = buffer;
    return FOVEA_OK;
}

static fovea_status make_event(CUevent *out, unsigned flags)
{
    CUevent event;
    FV_CUDA_TRY(NULL, cuEventCreate, (&event, flags));
    *out = event;
    return FOVEA_OK;
}

static fovea_status make_frame(struct cuda_queue *q, uint32_t number)
{
    struct cuda_frame *f = &q->frame[number];
    for (uint32_t i = 0; i < q->base.slots; i++)
        FV_TRY(make_external(&q->base.frame[number].external[i], q->base.device, &q->base.slot[i]));
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

static fovea_status open_queue(fv_queue *base)
{
    struct cuda_queue *q = cuda_queue_of(base);
    q->graphs = fv_cuda_has_graphs();
    FV_TRY(make_stream(&q->compute));
    FV_TRY(make_stream(&q->up));
    FV_TRY(make_stream(&q->down));
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++)
        FV_TRY(make_frame(q, f));
    return FOVEA_OK;
}

/* ---- close ---- */

/* Records the events of a frame. If the frame was enqueued only in part, they follow all of that
 * part. */
static void record_events(const struct cuda_queue *q, const struct cuda_frame *f)
{
    fv_cuda.cuEventRecord(f->arrived, q->up);
    fv_cuda.cuEventRecord(f->last, q->compute);
    fv_cuda.cuEventRecord(f->landed, q->down);
}

static void stop_frame(fv_queue *base, uint32_t number, bool whole)
{
    const struct cuda_queue *q = cuda_queue_of(base);
    const struct cuda_frame *f = &q->frame[number];
    fv_device *d = base->device;
    const CUevent events[] = {f->arrived, f->last, f->landed};
    if (!whole)
        record_events(q, f);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (!d->hung && fv_cuda_poll(events[i], FV_GPU_PATIENCE) == FV_GPU_LATE)
            d->lost = d->hung = true;
}

static void release_frame(struct cuda_queue *q, uint32_t number)
{
    struct cuda_frame *f = &q->frame[number];
    const CUevent events[] = {f->arrived, f->begun, f->last, f->landed};
    fv_cuda_graphs_free(&f->graphs);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            fv_cuda.cuEventDestroy(events[i]);
    for (uint32_t i = 0; q->base.frame[number].external && i < q->base.slots; i++) {
        const fv_gpu_external *e = &q->base.frame[number].external[i];
        if (e->buffer && !is_mapped(q->base.device, &q->base.slot[i]))
            fv_cuda.cuMemFree(e->buffer);
        if (e->staging)
            fv_cuda.cuMemFreeHost(e->staging);
    }
}

static bool close_queue(fv_queue *base)
{
    struct cuda_queue *q = cuda_queue_of(base);
    const CUstream streams[] = {q->compute, q->up, q->down};
    fv_cuda_trace_open(&q->trace, base->device, NULL);
    if (base->device->hung) /* what the device may still access is the driver's memory */
        return true;
    for (uint32_t f = 0; f < FV_GPU_FRAMES; f++)
        release_frame(q, f);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            fv_cuda.cuStreamDestroy(streams[i]);
    return true;
}

/* ---- one dispatch ---- */

static bool is_read_in_place(const fv_gpu_external *e)
{
    return e->import && e->import->transfer == FOVEA_TRANSFER_NONE;
}

/* At first, recordings use the plan's own memory for external operands. */
static void place_external(const struct cuda_queue *q, fv_cuda_bound *b, uint32_t o)
{
    const fv_operand *op = &b->step.base.l.operand[o];
    const fv_gpu_external *e = &q->base.frame[q->base.now].external[op->ref.slot];
    b->args.base[o] = e->buffer;
    if (!q->recording && is_read_in_place(e)) {
        const fv_cuda_place place = fv_cuda_imported(e);
        b->args.base[o] = place.at;
        b->args.at[o][1] = (uint32_t)(place.stride / fv_type_size(op->type));
    }
}

static void set_operands(const struct cuda_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    for (uint32_t o = 0; o < b->step.operands; o++) {
        b->args.at[o][0] = now->at[o];
        b->args.at[o][1] = now->ld[o];
        if (b->step.base.l.operand[o].ref.space == FV_SPACE_EXTERNAL)
            place_external(q, b, o);
    }
    b->args.row0 = now->row0;
    b->args.rows = now->rows;
    b->args.first = now->first;
    b->args.groups = now->groups;
}

static bool reads_input(const fv_queue *q, const fv_cuda_bound *b)
{
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_ref *ref = &b->step.base.l.operand[o].ref;
        if (ref->space == FV_SPACE_EXTERNAL && !q->slot[ref->slot].output)
            return true;
    }
    return false;
}

/* Notes the launch in the recording, if frames may later read its input from elsewhere. */
static fovea_status note_reader(struct cuda_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now,
                                CUfunction function, const size_t count[3])
{
    if (!q->recording || !reads_input(&q->base, b))
        return FOVEA_OK;
    return fv_cuda_graph_reads(&q->frame[q->base.now].graphs, b, now, function, count, q->compute);
}

/* Enqueues another library's part of a dispatch. */
static fovea_status run_before(struct cuda_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    const fv_launch *l = &b->step.base.l;
    fv_gpu_before before = {.device = q->base.device,
                            .queue = q->compute,
                            .scratch = l->scratch_mem->handle,
                            .rows = now->rows,
                            .own = &b->own};
    memcpy(before.buffer, b->args.base, sizeof before.buffer);
    for (uint32_t o = 0; o < b->step.operands; o++) {
        before.at[o] = b->args.at[o][0];
        before.ld[o] = b->args.at[o][1];
    }
    const fovea_status status = b->step.code->before(l, &before);
    if (status == FOVEA_EDEVICE && !q->recording)
        q->base.device->lost = true;
    FV_TRY(status);
    return note_reader(q, b, now, NULL, now->count);
}

static fovea_status launch_function(struct cuda_queue *q, fv_cuda_bound *b,
                                    const fv_gpu_dispatch *now, CUfunction function,
                                    const size_t count[3])
{
    const char *name = b->step.base.l.kernel->name;
    const CUresult error =
        fv_cuda.cuLaunchKernel(function, (unsigned)count[0], (unsigned)count[1], (unsigned)count[2],
                               b->step.group, 1, 1, 0, q->compute, b->parameter, NULL);
    if (error == CUDA_SUCCESS)
        return note_reader(q, b, now, function, count);
    return q->recording ? fv_cuda_fail(error, "cuLaunchKernel", name)
                        : fv_cuda_lose(q->base.device, error, "cuLaunchKernel", name);
}

static fovea_status launch(struct cuda_queue *q, fv_cuda_bound *b, const fv_gpu_dispatch *now)
{
    if (b->step.code->before)
        FV_TRY(run_before(q, b, now));
    for (uint32_t i = 0; i < now->passes; i++)
        FV_TRY(launch_function(q, b, now, b->pre_pass[i], now->pre_pass[i]));
    return launch_function(q, b, now, b->function, now->count);
}

static fovea_status dispatch(fv_queue *base, fv_gpu_step *step, const fv_gpu_dispatch *now)
{
    struct cuda_queue *q = cuda_queue_of(base);
    fv_cuda_bound *b = (fv_cuda_bound *)step;
    set_operands(q, b, now);
    if (!q->trace.to)
        return launch(q, b, now);
    FV_TRY(fv_cuda_trace_begin(&q->trace, base->device, q->compute, &step->base.l, now->row0,
                               now->rows));
    FV_TRY(launch(q, b, now));
    return fv_cuda_trace_end(&q->trace, base->device, q->compute);
}

/* ---- one frame ---- */

static fovea_status upload(fv_queue *base, uint32_t slot, uint32_t rows)
{
    const fv_gpu_external *e = &base->frame[base->now].external[slot];
    if (e->import && e->ready)
        FV_CUDA_RUN(base->device, "a picture", cuStreamWaitEvent,
                    (cuda_queue_of(base)->up, e->ready, 0));
    if (is_read_in_place(e))
        return FOVEA_OK;
    if (e->import)
        return fv_cuda_copy_import(base->device, e, base->slot[slot].row_bytes, rows,
                                   cuda_queue_of(base)->up);
    FV_CUDA_RUN(base->device, "an input", cuMemcpyHtoDAsync,
                (e->buffer, e->staging, (size_t)(base->slot[slot].row_bytes * rows),
                 cuda_queue_of(base)->up));
    return FOVEA_OK;
}

static fovea_status download(fv_queue *base, uint32_t slot, uint32_t rows)
{
    const fv_gpu_external *e = &base->frame[base->now].external[slot];
    if (!is_mapped(base->device, &base->slot[slot]))
        FV_CUDA_RUN(base->device, "an output", cuMemcpyDtoHAsync,
                    (e->staging, e->buffer, (size_t)(base->slot[slot].row_bytes * rows),
                     cuda_queue_of(base)->down));
    return FOVEA_OK;
}

static fovea_status submitted(fv_queue *base)
{
    const struct cuda_queue *q = cuda_queue_of(base);
    FV_CUDA_RUN(base->device, NULL, cuEventRecord, (q->frame[base->now].landed, q->down));
    return FOVEA_OK;
}

/* Makes the graph read what this frame reads; false if it cannot be changed. */
static bool point_graph(const struct cuda_queue *q, const fv_cuda_graph *g)
{
    for (uint32_t i = 0; i < g->readers.count; i++) {
        fv_cuda_reader *r = &g->readers.list[i];
        set_operands(q, r->step, &r->now);
        if (!fv_cuda_graph_change(g, r))
            return false;
    }
    return true;
}

/* The graph that this frame replays; NULL if it is enqueued call by call. */
static CUgraphExec graph_of(struct cuda_queue *q, const fv_sweep *s, uint32_t count)
{
    if (!q->graphs || q->trace.to)
        return NULL;
    const fv_cuda_graph *g =
        fv_cuda_graph_find(&q->frame[q->base.now].graphs, fv_gpu_frame_key(&q->base, s, count));
    return g && point_graph(q, g) ? g->exec : NULL;
}

static fovea_status compute(fv_queue *base, const fv_sweep *s, uint32_t count)
{
    struct cuda_queue *q = cuda_queue_of(base);
    struct cuda_frame *f = &q->frame[base->now];
    fv_device *d = base->device;
    const CUgraphExec graph = graph_of(q, s, count);
    if (q->trace.to)
        q->trace.to->used = 0;
    FV_CUDA_RUN(d, NULL, cuEventRecord, (f->arrived, q->up));
    FV_CUDA_RUN(d, NULL, cuStreamWaitEvent, (q->compute, f->arrived, 0));
    FV_CUDA_RUN(d, NULL, cuEventRecord, (f->begun, q->compute));
    if (graph)
        FV_CUDA_RUN(d, NULL, cuGraphLaunch, (graph, q->compute));
    else
        FV_TRY(fv_gpu_enqueue(base, s, count));
    FV_CUDA_RUN(d, NULL, cuEventRecord, (f->last, q->compute));
    FV_CUDA_RUN(d, NULL, cuStreamWaitEvent, (q->down, f->last, 0));
    return FOVEA_OK;
}

static fovea_status await_frame(fv_queue *base, uint32_t f, double deadline, double expect)
{
    FV_TRY(fv_cuda_await(base->device, cuda_queue_of(base)->frame[f].landed, fv_gpu_left(deadline),
                         expect));
    base->seen = fv_machine_seconds();
    return FOVEA_OK;
}

static double complete_frame(fv_queue *base, uint32_t number)
{
    struct cuda_queue *q = cuda_queue_of(base);
    const struct cuda_frame *f = &q->frame[number];
    float ms;
    if (q->trace.to)
        fv_cuda_trace_finish(&q->trace, f->begun);
    return fv_cuda.cuEventElapsedTime(&ms, f->begun, f->last) == CUDA_SUCCESS && ms >= 1e-3f
               ? ms * 1e-3
               : 0;
}

/* ---- recorded ---- */

/* Records what the frame computes, unless that was done before. */
static fovea_status record_frame(struct cuda_queue *q, const fv_sweep *s, uint32_t count)
{
    fv_cuda_graphs *graphs = &q->frame[q->base.now].graphs;
    const uint64_t key = fv_gpu_frame_key(&q->base, s, count);
    if (fv_cuda_graph_find(graphs, key))
        return FOVEA_OK;
    FV_TRY(fv_cuda_graph_begin(q->compute));
    q->recording = true;
    const fovea_status status = fv_gpu_enqueue(&q->base, s, count);
    q->recording = false;
    if (status != FOVEA_OK) {
        fv_cuda_graph_cancel(graphs, q->compute);
        return status;
    }
    return fv_cuda_graph_end(graphs, key, q->compute);
}

fovea_status fv_cuda_prepare(fv_queue *base, const fv_sweep *s, uint32_t count, fv_portion most)
{
    struct cuda_queue *q = cuda_queue_of(base);
    assert(base->done == base->submitted);
    for (uint32_t f = 0; f < FV_GPU_FRAMES && q->graphs; f++) {
        base->now = f;
        base->frame[f].most = most;
        q->graphs = record_frame(q, s, count) == FOVEA_OK;
    }
    if (!q->graphs) {
        if (fv_cuda_has_graphs())
            fv_log("cuda: the commands of a frame are enqueued one by one: %s", fovea_error());
        return FOVEA_OK;
    }
    return fv_cuda_finish(base->device, q->compute, 0);
}

void *fv_cuda_read_event(const fv_queue *base, fv_fence f)
{
    return ((const struct cuda_queue *)base)->frame[f % FV_GPU_FRAMES].last;
}

fovea_status fv_cuda_queue_trace(fv_queue *base, fv_trace *t)
{
    return fv_cuda_trace_open(&cuda_queue_of(base)->trace, base->device, t);
}

const fv_gpu_interface fv_cuda_interface = {
    .size = sizeof(struct cuda_queue),
    .ready = fv_cuda_ready,
    .open = open_queue,
    .close = close_queue,
    .upload = upload,
    .compute = compute,
    .dispatch = dispatch,
    .download = download,
    .submitted = submitted,
    .await = await_frame,
    .complete = complete_frame,
    .stop = stop_frame,
};
