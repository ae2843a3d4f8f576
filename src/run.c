/* run.c: frames: everything was decided in the plan, so this only binds memory and hands over. */
#include "plan.h"

static uint64_t output_bytes(const fv_value *v)
{
    return (uint64_t)v->rows * v->cols * v->elem;
}

static fovea_status ready(const fovea_plan *p, bool frames)
{
    if (p->dry)
        return fv_fail(FOVEA_EINVAL, "this plan was made dry and cannot run; plan without `dry`");
    if (frames != (p->frame_row != 0))
        return fv_fail(FOVEA_EINVAL, "a plan of %s; run it with %s",
                       frames ? "one operation" : "frames", frames ? "fovea_op_run" : "fovea_run");
    if (p->in_flight)
        return fv_fail(FOVEA_EINVAL, "one frame is in flight already; wait for it first");
    return FOVEA_OK;
}

static fovea_status bind_frame(fovea_plan *p, const fovea_frame *frame)
{
    uint64_t stride = frame->stride[0] ? frame->stride[0] : p->frame_row;
    if (!frame->pixels[0])
        return fv_fail(FOVEA_EINVAL, "the frame has no pixels");
    if (stride < p->frame_row || stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "frame stride of %llu bytes; a row has %llu",
                       (unsigned long long)stride, (unsigned long long)p->frame_row);
    if ((p->b.frame_flags & FV_FLAG_PLANAR) && stride != p->frame_row)
        return fv_fail(FOVEA_EINVAL, "float planes must be packed: %llu bytes from row to row",
                       (unsigned long long)p->frame_row);
    const char *plane = frame->pixels[0];
    for (int i = 1; i < 3 && (p->b.frame_flags & FV_FLAG_PLANAR); i++)
        if (frame->pixels[i] &&
            frame->pixels[i] != plane + (uint64_t)i * p->b.frame_plane * sizeof(float))
            return fv_fail(FOVEA_EINVAL, "float planes must follow one another in memory");
    return p->device->backend->upload(p->queue, p->b.value[0].slot, frame->pixels[0], stride);
}

fovea_status fovea_submit(fovea_plan *p, const fovea_frame *frame, const fovea_output *outs,
                          size_t n_outs, fovea_ticket *out)
{
    const fv_backend *be = p->device->backend;
    FV_TRY(ready(p, true));
    FV_TRY(bind_frame(p, frame));
    if (n_outs != p->b.n_wanted)
        return fv_fail(FOVEA_EINVAL, "%zu outputs given, the plan has %u", n_outs, p->b.n_wanted);
    for (size_t i = 0; i < n_outs; i++) {
        const fv_value *v = &p->b.value[p->b.wanted[i].value];
        if (!outs[i].data || outs[i].size < output_bytes(v))
            return fv_fail(FOVEA_EINVAL, "output %s: a buffer of %zu bytes, it needs %llu",
                           p->b.wanted[i].name, outs[i].data ? outs[i].size : 0,
                           (unsigned long long)output_bytes(v));
        FV_TRY(be->download(p->queue, v->slot, outs[i].data, 0));
    }
    FV_TRY(be->submit(p->queue, p->run, p->sweeps, UINT32_MAX, &p->fence));
    p->in_flight = true;
    *out = ++p->ticket;
    return FOVEA_OK;
}

fovea_status fovea_wait(fovea_plan *p, fovea_ticket ticket, double timeout)
{
    double seconds;
    if (ticket == 0 || ticket > p->ticket)
        return fv_fail(FOVEA_EINVAL, "ticket %llu was never given out", (unsigned long long)ticket);
    if (ticket < p->ticket || !p->in_flight)
        return FOVEA_OK;
    fovea_status status = p->device->backend->wait(p->queue, p->fence, timeout, &seconds);
    if (status != FOVEA_ETIMEOUT)
        p->in_flight = false;
    return status;
}

fovea_status fovea_run(fovea_plan *p, const fovea_frame *frame, const fovea_output *outs,
                       size_t n_outs)
{
    fovea_ticket ticket;
    FV_TRY(fovea_submit(p, frame, outs, n_outs, &ticket));
    return fovea_wait(p, ticket, -1);
}

/* ---- one operation ---- */

const char *fovea_op_input(const fovea_plan *p, size_t index)
{
    for (uint32_t i = 0; i < p->b.values; i++)
        if (p->b.value[i].name && index-- == 0)
            return p->b.value[i].name;
    return NULL;
}

static fovea_status check_matrix(const fv_value *v, const fovea_matrix *m, uint64_t *stride)
{
    const char *name = v->name ? v->name : "output";
    const uint64_t columns = m->stride ? m->stride : v->cols;
    if (!m->data || (uintptr_t)m->data % v->elem)
        return fv_fail(FOVEA_EINVAL, "matrix %s: its data are %s; give memory of elements", name,
                       m->data ? "not aligned" : "NULL");
    if (columns < v->cols || columns > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "matrix %s has stride %zu; its rows have %u elements", name,
                       m->stride, v->cols);
    *stride = columns * v->elem;
    return FOVEA_OK;
}

fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       fovea_matrix output)
{
    const fv_backend *be = p->device->backend;
    uint64_t stride = 0;
    double seconds;
    size_t k = 0;
    FV_TRY(ready(p, false));
    while (fovea_op_input(p, k))
        k++;
    if (n_inputs != k)
        return fv_fail(FOVEA_EINVAL, "%zu inputs given, the operation has %zu", n_inputs, k);
    k = 0;
    for (uint32_t i = 0; i < p->b.values; i++) {
        const fv_value *v = &p->b.value[i];
        if (!v->name)
            continue;
        FV_TRY(check_matrix(v, &inputs[k], &stride));
        FV_TRY(be->upload(p->queue, v->slot, inputs[k].data, stride));
        k++;
    }
    const fv_value *v = &p->b.value[p->b.wanted[0].value];
    FV_TRY(check_matrix(v, &output, &stride));
    FV_TRY(be->download(p->queue, v->slot, output.data, stride));
    FV_TRY(be->submit(p->queue, p->run, p->sweeps, rows, &p->fence));
    return be->wait(p->queue, p->fence, -1, &seconds);
}

fovea_status fovea_op_run(fovea_plan *p, const fovea_matrix *inputs, size_t n_inputs,
                          fovea_matrix output)
{
    if (p->region_size[FV_REGION_KEPT])
        FV_TRY(p->device->backend->write(p->device->device, &p->region[FV_REGION_KEPT], NULL,
                                         p->region_size[FV_REGION_KEPT]));
    return fv_op_run(p, UINT32_MAX, inputs, n_inputs, output);
}
