/* cuda_trace.c: records when the dispatches of a traced frame began and ended: an event before and
 * one after each, whose times the driver reports once the frame is done.
 */
#include "cuda/cuda_trace.h"

#include "base/mem.h"

static void free_spans(fv_cuda_trace *t, const fv_device *d)
{
    for (size_t i = 0; t->to && i < t->to->capacity; i++) {
        const CUevent events[2] = {t->span[i].begin, t->span[i].end};
        for (int k = 0; k < 2; k++)
            if (events[k] && !d->hung)
                fv_cuda.cuEventDestroy(events[k]);
    }
    fv_mem_free(t->span);
}

fovea_status fv_cuda_trace_open(fv_cuda_trace *t, const fv_device *d, fv_trace *to)
{
    struct fv_cuda_span *span = NULL;
    if (to)
        FV_TRY(FV_MEM_ARRAY(&span, to->capacity, FV_MEM_PLAN, "the trace"));
    free_spans(t, d);
    *t = (fv_cuda_trace){.to = to, .span = span};
    return FOVEA_OK;
}

static fovea_status record_event(CUevent *event, fv_device *d, CUstream stream)
{
    if (!*event) {
        CUevent made;
        FV_CUDA_RUN(d, "a trace", cuEventCreate, (&made, CU_EVENT_DEFAULT));
        *event = made;
    }
    FV_CUDA_RUN(d, "a trace", cuEventRecord, (*event, stream));
    return FOVEA_OK;
}

fovea_status fv_cuda_trace_begin(fv_cuda_trace *t, fv_device *d, CUstream stream,
                                 const fv_launch *l, uint32_t row, uint32_t rows)
{
    fovea_trace_event *e = fv_trace_next(t->to);
    t->open = NULL;
    if (!e)
        return FOVEA_OK;
    *e = (fovea_trace_event){.step = l->index, .row = row, .rows = rows};
    t->open = &t->span[e - t->to->event];
    return record_event(&t->open->begin, d, stream);
}

fovea_status fv_cuda_trace_end(fv_cuda_trace *t, fv_device *d, CUstream stream)
{
    return t->open ? record_event(&t->open->end, d, stream) : FOVEA_OK;
}

void fv_cuda_trace_finish(fv_cuda_trace *t, CUevent begun)
{
    const size_t noted = t->to->used < t->to->capacity ? t->to->used : t->to->capacity;
    for (size_t i = 0; i < noted; i++) {
        float begin, end; /* milliseconds */
        if (fv_cuda.cuEventElapsedTime(&begin, begun, t->span[i].begin) != CUDA_SUCCESS ||
            fv_cuda.cuEventElapsedTime(&end, begun, t->span[i].end) != CUDA_SUCCESS)
            continue;
        t->to->event[i].begin = begin * 1e-3;
        t->to->event[i].end = end * 1e-3;
    }
}
