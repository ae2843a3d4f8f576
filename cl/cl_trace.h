/* cl_trace.h: when the dispatches of a traced frame began and ended. */
#ifndef FOVEA_CL_CL_TRACE_H
#define FOVEA_CL_CL_TRACE_H

#include "cl/cl_device.h"

typedef struct fv_cl_trace {
    fv_trace *to; /* NULL: off */
    struct fv_cl_span {
        cl_event since, done; /* `since` NULL: `done` tells its own begin */
    } * span;                 /* one per event of `to` */
} fv_cl_trace;

/* Makes room; `to` NULL: gives it back. */
fovea_status fv_cl_trace_open(fv_cl_trace *t, fv_trace *to);
/* Notes a dispatch of rows from `row` on: the command of `done`, or all from the end of `since` to
 * it. Takes over both events. */
void fv_cl_trace_note(fv_cl_trace *t, const fv_device *d, const fv_launch *l, uint32_t row,
                      uint32_t rows, cl_event since, cl_event done);
/* Fills in the times of a frame that is done, which began when `begun` ended. */
void fv_cl_trace_finish(fv_cl_trace *t, const fv_device *d, cl_event begun);
/* Forgets what was noted. */
void fv_cl_trace_drop(fv_cl_trace *t, const fv_device *d);

/* When a command began and ended, in the device's nanoseconds. */
bool fv_cl_event_times(cl_event e, cl_ulong *begin, cl_ulong *end);

#endif
