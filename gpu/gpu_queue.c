/* gpu_queue.c: frames in flight, for OpenCL and CUDA alike. */
#include "gpu/gpu_queue.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "device/sweep_calls.h"
#include "platform/os/os_machine.h"

uint64_t fv_gpu_slot_bytes(const fv_slot *slot)
{
    return fv_size_mul(slot->row_bytes, slot->rows);
}

/* ---- open and close ---- */

static fovea_status open_frames(fv_queue *q, const fv_slot *slot)
{
    FV_TRY(FV_MEM_ARRAY(&q->slot, q->slots, FV_MEM_PLAN, "the queue"));
    if (q->slots) /* the queue of a trial has no slots */
        memcpy(q->slot, slot, q->slots * sizeof *slot);
    for (int i = 0; i < FV_GPU_FRAMES; i++)
        FV_TRY(FV_MEM_ARRAY(&q->frame[i].external, q->slots, FV_MEM_PLAN, "the queue"));
    return q->interface->open(q);
}

fovea_status fv_gpu_queue_open(fv_queue **out, const fv_gpu_interface *interface, fv_device *d,
                               const fv_slot *slot, uint32_t slots)
{
    fv_queue *q;
    FV_TRY(interface->ready(d));
    FV_TRY(fv_mem_alloc(&q, interface->size, FV_MEM_PLAN, "the queue"));
    q->interface = interface;
    q->device = d;
    q->slots = slots;
    const fovea_status status = open_frames(q, slot);
    if (status == FOVEA_OK)
        *out = q;
    else
        fv_gpu_queue_close(q);
    return status;
}

void fv_gpu_queue_close(fv_queue *q)
{
    if (!q)
        return;
    while (q->done < q->submitted)
        q->interface->stop(q, ++q->done % FV_GPU_FRAMES, true);
    if (!q->interface->close(q))
        return;
    for (int i = 0; i < FV_GPU_FRAMES; i++)
        fv_mem_free(q->frame[i].external);
    fv_mem_free(q->slot);
    fv_mem_free(q);
}

/* ---- the caller's memory ---- */

/* The slot's matrix in the frame that the next submit will use. */
static fv_gpu_external *next_external(fv_queue *q, uint32_t slot)
{
    return &q->frame[(q->submitted + 1) % FV_GPU_FRAMES].external[slot];
}

static fovea_status place_host(fv_queue *q, uint32_t slot, char *host, uint64_t stride)
{
    fv_gpu_external *e = next_external(q, slot);
    e->host = host;
    e->import = NULL;
    e->stride = stride ? stride : q->slot[slot].row_bytes;
    assert(e->stride >= q->slot[slot].row_bytes);
    return FOVEA_OK;
}

fovea_status fv_gpu_upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride)
{
    return place_host(q, slot, (char *)(uintptr_t)src, stride); /* inputs are only read */
}

fovea_status fv_gpu_upload_from(fv_queue *q, uint32_t slot, fv_import *m, uint32_t plane,
                                uint64_t at, uint64_t stride, void *ready)
{
    fv_gpu_external *e = next_external(q, slot);
    e->import = m;
    e->plane = plane;
    e->at = at;
    e->stride = stride;
    e->ready = ready;
    return FOVEA_OK;
}

fovea_status fv_gpu_download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride)
{
    return place_host(q, slot, dst, stride);
}

uint32_t fv_gpu_slot_rows(const fv_queue *q, uint32_t f, uint32_t slot)
{
    const fv_portion *most = &q->frame[f].most;
    return slot < most->slots ? fv_min_u32(q->slot[slot].rows, most->rows) : 0;
}

static fovea_status upload_inputs(fv_queue *q)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const fv_gpu_external *e = &q->frame[q->now].external[i];
        const uint64_t row = q->slot[i].row_bytes;
        const uint32_t rows = fv_gpu_slot_rows(q, q->now, i);
        if (q->slot[i].output || !rows)
            continue;
        if (e->staging && !e->import)
            fv_gpu_copy_rows(e->staging, row, e->host, e->stride, row, rows);
        FV_TRY(q->interface->upload(q, i, rows));
    }
    return FOVEA_OK;
}

static fovea_status download_outputs(fv_queue *q)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const uint32_t rows = fv_gpu_slot_rows(q, q->now, i);
        if (q->slot[i].output && rows)
            FV_TRY(q->interface->download(q, i, rows));
    }
    return q->interface->submitted(q);
}

/* Copies the outputs of a frame that is done from staging memory to the caller. */
static void copy_staged_outputs(const fv_queue *q, uint32_t f)
{
    for (uint32_t i = 0; i < q->slots; i++) {
        const fv_gpu_external *e = &q->frame[f].external[i];
        const uint64_t row = q->slot[i].row_bytes;
        if (q->slot[i].output && e->staging)
            fv_gpu_copy_rows(e->host, e->stride, e->staging, row, row, fv_gpu_slot_rows(q, f, i));
    }
}

/* ---- submit ---- */

static fovea_status flush(fv_queue *q)
{
    return q->interface->flush ? q->interface->flush(q) : FOVEA_OK;
}

static fovea_status enqueue_pieces(fv_queue *q, fv_gpu_step *step, uint32_t width, const fv_call *c)
{
    const uint32_t even = fv_gpu_step_cut(step, c->rows);
    for (uint32_t from = 0; from < c->rows; from += even) {
        const uint32_t left = c->rows - from;
        fv_gpu_dispatch now;
        fv_gpu_dispatch_fill(&now, step, width, c, from, left < even ? left : even);
        FV_TRY(q->interface->dispatch(q, step, &now));
        if (even < c->rows)
            FV_TRY(flush(q));
    }
    return FOVEA_OK;
}

static void enqueue_call(void *ctx, fv_bound *step, const fv_call_place *at, fv_call *c)
{
    fv_queue *q = ctx;
    if (q->failed == FOVEA_OK)
        q->failed = enqueue_pieces(q, (fv_gpu_step *)step, at->width, c);
}

fovea_status fv_gpu_enqueue(fv_queue *q, const fv_sweep *s, uint32_t count)
{
    q->failed = FOVEA_OK;
    for (uint32_t i = 0; i < count; i++) {
        fv_sweep_calls_sweep(&s[i], q->frame[q->now].most, enqueue_call, q);
        FV_TRY(q->failed);
        FV_TRY(flush(q));
    }
    return FOVEA_OK;
}

/* FNV-1a hash of 64-bit words. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    return (h ^ word) * UINT64_C(0x100000001b3);
}

uint64_t fv_gpu_frame_key(const fv_queue *q, const fv_sweep *s, uint32_t count)
{
    const fv_gpu_frame *f = &q->frame[q->now];
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = s[i].rows > most ? s[i].rows : most;
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), fv_min_u32(f->most.rows, most));
    for (uint32_t i = 0; i < q->slots; i++)
        h = mix(h, f->external[i].buffer);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t words[] = {s[i].steps,    s[i].rows,
                                  s[i].chunk,    s[i].groups,
                                  s[i].partials, s[i].runs,
                                  s[i].width,    s[i].reach,
                                  s[i].streamed, fv_sweep_calls_batch(&s[i], f->most)};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            h = mix(h, words[k]);
        for (uint32_t k = 0; k < s[i].steps; k++)
            h = mix(h, ((const fv_gpu_step *)s[i].step[k])->serial);
    }
    return h ? h : 1;
}

fovea_status fv_gpu_submit(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out)
{
    FV_TRY(q->interface->ready(q->device));
    assert(q->submitted - q->done < FV_GPU_FRAMES);
    q->now = (q->submitted + 1) % FV_GPU_FRAMES;
    q->frame[q->now].most = most;
    q->frame[q->now].begin = fv_machine_seconds();
    fovea_status status = upload_inputs(q);
    FV_THEN(status, q->interface->compute(q, s, count));
    FV_THEN(status, download_outputs(q));
    if (status == FOVEA_OK)
        *out = ++q->submitted;
    else
        q->interface->stop(q, q->now, false);
    return status;
}

/* ---- wait ---- */

/* Estimated seconds of the next frame, if only the host has a clock. If the frame was already done
 * when the host first looked, after a sleep, it may have been done long before, so the next frame
 * is expected much earlier. Otherwise one slow frame would make the host sleep too long for all
 * that follow. */
static double expect_as_seen(double seconds, double expected)
{
    return seconds < 0.95 * expected ? seconds / 2 : seconds;
}

/* Returns its seconds. */
static double complete_frame(fv_queue *q, uint32_t f, double from)
{
    copy_staged_outputs(q, f);
    const double seconds = q->interface->complete(q, f);
    q->finished = fv_machine_seconds();
    q->expect = seconds > 0 ? seconds : expect_as_seen(q->seen - from, q->expect);
    return seconds > 0 ? seconds : q->finished - from;
}

fovea_status fv_gpu_wait(fv_queue *q, fv_fence fence, double timeout, double *seconds)
{
    const double deadline = timeout < 0 ? -1 : fv_machine_seconds() + timeout;
    *seconds = 0;
    while (q->done < fence) {
        const uint32_t f = (q->done + 1) % FV_GPU_FRAMES;
        const double begin = q->frame[f].begin, from = begin > q->finished ? begin : q->finished;
        FV_TRY(q->interface->ready(q->device));
        const fovea_status status =
            q->interface->await(q, f, deadline, from + q->expect - fv_machine_seconds());
        if (status == FOVEA_ETIMEOUT)
            return status;
        if (status == FOVEA_OK)
            *seconds = complete_frame(q, f, from);
        else
            q->interface->stop(q, f, true);
        q->done++;
        FV_TRY(status);
    }
    return FOVEA_OK;
}
