/* run.c: runs frames. The plan has decided everything, so this code only binds the caller's memory,
 * submits and waits. */
#include "run/run.h"
#include "plan/plan.h"
#include "platform/os/os_machine.h"
#include "run/fallback.h"

static uint64_t output_bytes(const fv_value *v)
{
    return (uint64_t)v->rows * v->cols * fv_type_size(v->type);
}

static fovea_status ready(const fovea_plan *p, bool frames)
{
    FV_TRY(fv_require(p, "the plan"));
    if (p->dry)
        return fv_fail(FOVEA_EINVAL, "a dry plan cannot run; plan without `dry`");
    if (frames != (p->frame.planes != 0))
        return fv_fail(FOVEA_EINVAL, "the plan runs %s; run it with %s",
                       frames ? "one operation" : "frames", frames ? "fovea_op_run" : "fovea_run");
    const uint64_t flying = p->run.ticket - p->run.completed,
                   most = p->run.trace.event ? 1 : p->limits.frames;
    if (flying >= most)
        return fv_fail(FOVEA_EINVAL,
                       "%u frame%s in flight, which is the plan's maximum; wait for the first one",
                       (unsigned)most, most > 1 ? "s are" : " is");
    return FOVEA_OK;
}

fovea_status fv_frame_plane(const fovea_plan *p, const fovea_frame *frame, uint32_t plane,
                            uint64_t *stride)
{
    const char *what = plane ? "frame's second plane" : "frame";
    const uint64_t row = fv_value_stride(&p->graph.value[plane]);
    *stride = frame->stride[plane] ? frame->stride[plane] : row;
    if (!frame->pixels[plane])
        return fv_fail(FOVEA_EINVAL, "the %s has no pixels%s", what,
                       plane ? "; NV12 has U and V there" : "");
    if (*stride < row || *stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "the %s has a stride of %llu bytes, but a row has %llu", what,
                       (unsigned long long)*stride, (unsigned long long)row);
    return FOVEA_OK;
}

fovea_status fv_frame_bind(fovea_plan *p, const fovea_frame *frame, uint32_t index)
{
    const fv_backend *be = p->device->backend;
    const fv_value *v = p->graph.value;
    const uint32_t first = index * p->graph.slots;
    const bool planar = p->frame.format == FOVEA_FORMAT_PLANES_F32;
    const uint64_t elements = (uint64_t)p->frame.width * p->frame.height;
    uint64_t stride;
    FV_TRY(fv_frame_plane(p, frame, 0, &stride));
    const uint64_t row = fv_value_stride(&v[0]);
    if (planar && stride != row)
        return fv_fail(FOVEA_EINVAL, "float planes must be packed; their stride must be %llu bytes",
                       (unsigned long long)row);
    const char *plane = frame->pixels[0];
    for (int i = 1; i < 3 && planar; i++)
        if (frame->pixels[i] && frame->pixels[i] != plane + i * elements * sizeof(float))
            return fv_fail(FOVEA_EINVAL,
                           "float planes must follow one another in memory; set only pixels[0]");
    FV_TRY(be->upload(p->run.queue, first + v[0].slot, frame->pixels[0], stride));
    if (p->frame.planes == 1)
        return FOVEA_OK;
    FV_TRY(fv_frame_plane(p, frame, 1, &stride));
    return be->upload(p->run.queue, first + v[1].slot, frame->pixels[1], stride);
}

fovea_status fv_crop_bind(fovea_plan *p, const fovea_frame *frame, uint32_t index)
{
    const uint64_t slot = (p->run.ticket + 1) % p->limits.frames * p->info.count + index;
    uint8_t *out = p->frame.crops.pixels + slot * p->frame.crops.size;
    const fovea_frame crop = {.pixels = {out}};
    const fovea_box whole = fv_whole_frame(p);
    FV_TRY(fovea_box_crop(frame, p->frame.format, p->frame.crops.yuv, p->frame.width,
                          p->frame.height, &whole, out, p->info.width, p->info.height));
    return fv_frame_bind(p, &crop, index);
}

/* Sets *out to the number of frames that are run, given the number of outputs. */
static fovea_status count_frames(const fovea_plan *p, size_t n_outs, uint32_t *out)
{
    const size_t frames = n_outs / p->graph.n_wanted;
    *out = (uint32_t)frames;
    if (n_outs % p->graph.n_wanted == 0 && frames > 0 && frames <= p->info.count)
        return FOVEA_OK;
    if (p->info.count == 1)
        return fv_fail(FOVEA_EINVAL, "the caller gave %zu outputs, but the plan has %u", n_outs,
                       p->graph.n_wanted);
    return fv_fail(FOVEA_EINVAL,
                   "the caller gave %zu outputs, but %u are needed for each of at most %u frames",
                   n_outs, p->graph.n_wanted, p->info.count);
}

static fovea_status bind_outputs(fovea_plan *p, const fovea_output *outs, uint32_t index)
{
    for (size_t i = 0; i < p->graph.n_wanted; i++) {
        const fv_value *v = &p->graph.value[p->graph.wanted[i].value];
        if (!outs[i].data || outs[i].size < output_bytes(v))
            return fv_fail(FOVEA_EINVAL, "output %s: the buffer has %zu bytes, but %llu are needed",
                           p->graph.wanted[i].name, outs[i].data ? outs[i].size : 0,
                           (unsigned long long)output_bytes(v));
        FV_TRY(p->device->backend->download(p->run.queue, index * p->graph.slots + v->slot,
                                            outs[i].data, 0));
    }
    return FOVEA_OK;
}

static fovea_status hand_over(fovea_plan *p, const fv_run_input *in, const fovea_output *outs,
                              uint32_t frames, fv_flight *flight)
{
    const fv_portion most = {UINT32_MAX, frames, frames * p->graph.slots};
    const bool cut = p->frame.crops.size > 0;
    bool by_host = false;
    if (in->image)
        FV_TRY(cut ? fv_external_frame_crop(p, in) : fv_external_frame_bind(p, in, &by_host));
    for (uint32_t i = 0; i < frames && !in->image; i++)
        FV_TRY(cut ? fv_crop_bind(p, &in->frame[i], i) : fv_frame_bind(p, &in->frame[i], i));
    for (uint32_t i = 0; i < frames; i++)
        FV_TRY(bind_outputs(p, outs + (size_t)i * p->graph.n_wanted, i));
    if (in->image && !cut)
        FV_TRY(fv_external_image_begin(in->image, in->acquire, by_host));
    flight->read = by_host ? in->image : NULL;
    const fovea_status status =
        p->device->backend->submit(p->run.queue, p->run.sweep, p->cut.sweeps, most, &flight->fence);
    if (status != FOVEA_OK)
        fv_flight_end(flight);
    return status;
}

fovea_status fv_run_submit(fovea_plan *p, const fv_run_input *in, const fovea_output *outs,
                           size_t n_outs, fovea_ticket *out)
{
    uint32_t frames;
    FV_TRY(ready(p, true));
    FV_TRY(fv_require(outs, "the outputs"));
    FV_TRY(fv_require(out, "the pointer to the ticket"));
    FV_TRY(count_frames(p, n_outs, &frames));
    fv_flight *flight = &p->run.flight[(p->run.ticket + 1) % FV_FLIGHTS];
    fv_run_input rest = *in;
    if (!p->run.fallback.used) {
        const fovea_status status = hand_over(p, in, outs, frames, flight);
        if (status != FOVEA_EDEVICE || !p->run.fallback.plan)
            FV_TRY(status);
        else
            FV_TRY(fv_fallback_take_over(p));
        rest.acquire = NULL; /* this fence was waited for */
    }
    if (p->run.fallback.used)
        FV_TRY(fv_run_submit(p->run.fallback.plan, &rest, outs, n_outs, &flight->fence));
    else if (p->run.fallback.plan)
        fv_fallback_note(p, p->run.ticket + 1, in, outs, frames);
    flight->status = FOVEA_OK;
    *out = ++p->run.ticket;
    return FOVEA_OK;
}

fovea_status fovea_submit(fovea_plan *p, const fovea_frame *frame, const fovea_output *outs,
                          size_t n_outs, fovea_ticket *out)
{
    const fv_run_input in = {.frame = frame};
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_require(frame, "the frame"));
    return fv_run_submit(p, &in, outs, n_outs, out);
}

/* Completes frames. They complete in order, so those before `ticket` are complete. A failed frame
 * keeps its status for the fovea_wait that asks for it. */
static void complete_frame(fovea_plan *p, fovea_ticket ticket, fovea_status last)
{
    double passed_over;
    while (++p->run.completed < ticket) {
        fv_flight *f = &p->run.flight[p->run.completed % FV_FLIGHTS];
        f->status = p->device->backend->wait(p->run.queue, f->fence, 0, &passed_over);
        fv_flight_end(f);
        if (f->status != FOVEA_OK)
            f->status = FOVEA_EDEVICE;
    }
    p->run.flight[ticket % FV_FLIGHTS].status = last;
    fv_flight_end(&p->run.flight[ticket % FV_FLIGHTS]);
    if (p->run.fallback.plan)
        p->run.fallback.completed = fv_machine_seconds();
}

fovea_status fovea_wait(fovea_plan *p, fovea_ticket ticket, double timeout)
{
    double seconds;
    FV_TRY(fv_require(p, "the plan"));
    if (ticket == 0 || ticket > p->run.ticket)
        return fv_fail(FOVEA_EINVAL, "ticket %llu was never issued; pass a ticket of fovea_submit",
                       (unsigned long long)ticket);
    fv_flight *f = &p->run.flight[ticket % FV_FLIGHTS];
    if (ticket <= p->run.completed) {
        if (ticket + FV_FLIGHTS <= p->run.ticket || f->status == FOVEA_OK)
            return FOVEA_OK;
        return fv_fail(f->status, "the frame failed; close the device and open it again");
    }
    if (p->run.fallback.used)
        return fv_fallback_wait(p, ticket, timeout);
    const double patience = p->run.fallback.plan ? fv_fallback_patience(p, ticket) : -1;
    const bool ours = p->run.fallback.plan && (timeout < 0 || patience < timeout);
    const fovea_status status =
        p->device->backend->wait(p->run.queue, f->fence, ours ? patience : timeout, &seconds);
    if (p->run.fallback.plan && (status == FOVEA_EDEVICE || (status == FOVEA_ETIMEOUT && ours))) {
        FV_TRY(fv_fallback_take_over(p));
        return fv_fallback_wait(p, ticket, timeout);
    }
    if (status == FOVEA_ETIMEOUT)
        return status;
    p->run.seconds = seconds;
    complete_frame(p, ticket, status);
    return status;
}

fovea_status fovea_run(fovea_plan *p, const fovea_frame *frame, const fovea_output *outs,
                       size_t n_outs)
{
    fovea_ticket ticket;
    FV_TRY(fovea_submit(p, frame, outs, n_outs, &ticket));
    return fovea_wait(p, ticket, -1);
}

/* Checks that `ticket` is a frame in flight, on a device that reports when it has read the
 * pixels. */
static fovea_status tells_reading(const fovea_plan *p, fovea_ticket ticket)
{
    FV_TRY(fv_require(p, "the plan"));
    if (ticket <= p->run.completed || ticket > p->run.ticket)
        return fv_fail(FOVEA_EINVAL, "ticket %llu does not belong to a frame in flight",
                       (unsigned long long)ticket);
    if (!p->device->backend->read_event || p->run.fallback.used)
        return fv_fail(
            FOVEA_ENOTSUP,
            "frames on the CPU have no event, because fovea_wait computes them; use fovea_wait");
    return FOVEA_OK;
}

fovea_status fovea_plan_release_event(const fovea_plan *p, fovea_ticket ticket, void **out)
{
    FV_TRY(fv_require(out, "the pointer to the event"));
    FV_TRY(tells_reading(p, ticket));
    *out = p->device->backend->read_event(p->run.queue, p->run.flight[ticket % FV_FLIGHTS].fence);
    return FOVEA_OK;
}

fovea_status fovea_plan_release_fence(fovea_plan *p, fovea_ticket ticket, int *fd)
{
    FV_TRY(fv_require(fd, "the pointer to the fence"));
    FV_TRY(tells_reading(p, ticket));
    const fv_backend *be = p->device->backend;
    if (!be->read_fence)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s does not support sync_file; wait with fovea_wait, or for the event of "
                       "fovea_plan_release_event",
                       be->name);
    return be->read_fence(p->run.queue, p->run.flight[ticket % FV_FLIGHTS].fence, fd);
}

/* ---- times of a frame ---- */

double fovea_plan_seconds(const fovea_plan *p)
{
    return p->run.seconds;
}

fovea_status fovea_plan_trace(fovea_plan *p, fovea_trace_event *events, size_t capacity)
{
    const fv_backend *be = p->device->backend;
    fv_trace *t = &p->run.trace;
    if (p->dry || p->run.ticket != p->run.completed)
        return fv_fail(FOVEA_EINVAL, "%s",
                       p->dry ? "a dry plan cannot run or be traced; plan without `dry`"
                              : "a frame is in flight; wait for it first");
    if (p->run.fallback.used)
        return events ? fv_fail(FOVEA_ENOTSUP,
                                "the plan's device was lost; make a new plan to trace it")
                      : FOVEA_OK;
    if (t->event)
        FV_TRY(be->trace(p->run.queue, NULL));
    *t = (fv_trace){.event = events, .capacity = events ? capacity : 0};
    if (!events)
        return FOVEA_OK;
    const fovea_status status = be->trace(p->run.queue, t);
    if (status != FOVEA_OK)
        t->event = NULL;
    return status;
}

size_t fovea_plan_trace_count(const fovea_plan *p)
{
    return p->run.trace.used;
}

/* ---- one operation ---- */

const char *fovea_op_input(const fovea_plan *p, size_t index)
{
    for (uint32_t i = 0; i < p->graph.values; i++)
        if (p->graph.value[i].name && index-- == 0)
            return p->graph.value[i].name;
    return NULL;
}

static fovea_status check_matrix(const fv_value *v, const fovea_matrix *m, uint64_t *stride)
{
    const char *name = v->name ? v->name : "output";
    const uint64_t columns = m->stride ? m->stride : v->cols;
    if (!m->data || (uintptr_t)m->data % fv_type_size(v->type))
        return fv_fail(FOVEA_EINVAL, "matrix %s: its data pointer is %s; pass aligned memory", name,
                       m->data ? "not aligned" : "NULL");
    if (columns < v->cols || columns > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "matrix %s has stride %zu, but its rows have %u elements",
                       name, m->stride, v->cols);
    *stride = columns * fv_type_size(v->type);
    return FOVEA_OK;
}

fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       const fovea_matrix *outputs)
{
    uint64_t stride = 0;
    size_t k = 0;
    FV_TRY(ready(p, false));
    FV_TRY(fv_require(inputs, "the inputs"));
    const fv_backend *be = p->device->backend;
    while (fovea_op_input(p, k))
        k++;
    if (n_inputs != k)
        return fv_fail(FOVEA_EINVAL, "the caller gave %zu inputs, but the operation has %zu",
                       n_inputs, k);
    k = 0;
    for (uint32_t i = 0; i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (!v->name)
            continue;
        FV_TRY(check_matrix(v, &inputs[k], &stride));
        FV_TRY(be->upload(p->run.queue, v->slot, inputs[k].data, stride));
        k++;
    }
    for (uint32_t i = 0; i < p->graph.n_wanted; i++) {
        const fv_value *v = &p->graph.value[p->graph.wanted[i].value];
        FV_TRY(check_matrix(v, &outputs[i], &stride));
        FV_TRY(be->download(p->run.queue, v->slot, outputs[i].data, stride));
    }
    fv_portion most = FV_ALL;
    most.rows = rows;
    fv_fence fence;
    FV_TRY(be->submit(p->run.queue, p->run.sweep, p->cut.sweeps, most, &fence));
    return be->wait(p->run.queue, fence, -1, &p->run.seconds);
}

fovea_status fovea_op_run(fovea_plan *p, const fovea_matrix *inputs, size_t n_inputs,
                          fovea_matrix output)
{
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_plan_kept_reset(p));
    return fv_op_run(p, UINT32_MAX, inputs, n_inputs, &output);
}
