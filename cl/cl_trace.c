/* cl_trace.c: records when the dispatches of a traced frame began and ended. The driver reports
 * their times once the frame is done; until then their events are kept.
 */
#include "cl/cl_trace.h"

#include "base/mem.h"

bool fv_cl_event_times(cl_event e, cl_ulong *begin, cl_ulong *end)
{
    return fv_cl.clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof *begin, begin,
                                         NULL) == CL_SUCCESS &&
           fv_cl.clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof *end, end, NULL) ==
               CL_SUCCESS &&
           *end >= *begin;
}

fovea_status fv_cl_trace_open(fv_cl_trace *t, fv_trace *to)
{
    struct fv_cl_span *span = NULL;
    if (to)
        FV_TRY(FV_MEM_ARRAY(&span, to->capacity, FV_MEM_PLAN, "the trace"));
    fv_mem_free(t->span);
    *t = (fv_cl_trace){to, span};
    return FOVEA_OK;
}

static void release_span(const fv_device *d, struct fv_cl_span *span)
{
    const cl_event events[2] = {span->since, span->done};
    for (int i = 0; i < 2; i++)
        if (events[i] && !d->hung)
            fv_cl.clReleaseEvent(events[i]);
    *span = (struct fv_cl_span){NULL, NULL};
}

void fv_cl_trace_note(fv_cl_trace *t, const fv_device *d, const fv_launch *l, uint32_t row,
                      uint32_t rows, cl_event since, cl_event done)
{
    struct fv_cl_span span = {since, done};
    fovea_trace_event *e = fv_trace_next(t->to);
    if (!e) {
        release_span(d, &span);
        return;
    }
    *e = (fovea_trace_event){.step = l->index, .row = row, .rows = rows};
    t->span[e - t->to->event] = span;
}

static size_t noted(const fv_cl_trace *t)
{
    return t->to->used < t->to->capacity ? t->to->used : t->to->capacity;
}

static bool span_times(const struct fv_cl_span *span, cl_ulong *begin, cl_ulong *end)
{
    cl_ulong asked;
    if (!span->done || !fv_cl_event_times(span->done, begin, end))
        return false;
    return !span->since || (fv_cl_event_times(span->since, &asked, begin) && *end >= *begin);
}

void fv_cl_trace_finish(fv_cl_trace *t, const fv_device *d, cl_event begun)
{
    cl_ulong asked, start = 0, begin = 0, end = 0;
    if (!t->to || !fv_cl_event_times(begun, &asked, &start))
        return;
    for (size_t i = 0; i < noted(t); i++) {
        if (span_times(&t->span[i], &begin, &end) && begin >= start) {
            t->to->event[i].begin = (double)(begin - start) * 1e-9;
            t->to->event[i].end = (double)(end - start) * 1e-9;
        }
        release_span(d, &t->span[i]);
    }
}

void fv_cl_trace_drop(fv_cl_trace *t, const fv_device *d)
{
    for (size_t i = 0; t->to && i < noted(t); i++)
        release_span(d, &t->span[i]);
    if (t->to)
        t->to->used = 0;
}
