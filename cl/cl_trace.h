/* cl_trace.h: records when the dispatches of a traced frame began and ended. */
#ifndef FOVEA_CL_CL_TRACE_H
#define FOVEA_CL_CL_TRACE_H

#include "cl/cl_device.h"

typedef struct fv_cl_trace {
    fv_trace *to; /* NULL: off */
    struct fv_cl_span {
        cl_event since, done; /* `since` NULL: the begin of `done` is used */
    } * span;                 /* one per event of `to` */
} fv_cl_trace;

/* Allocates memory for the trace `to`; if `to` is NULL, frees it. */
fovea_status fv_cl_trace_open(fv_cl_trace *t, fv_trace *to);
/* Notes a dispatch of rows from `row` on: the command of `done` or, if `since` is given, all
 * commands from the end of `since` to the end of `done`. Takes ownership of both events. */
void fv_cl_trace_note(fv_cl_trace *t, const fv_device *d, const fv_launch *l, uint32_t row,
                      uint32_t rows, cl_event since, cl_event done);
/* Fills in the times of a frame that is done, relative to the end of `begun`. */
void fv_cl_trace_finish(fv_cl_trace *t, const fv_device *d, cl_event begun);
/* Forgets what was noted. */
void fv_cl_trace_drop(fv_cl_trace *t, const fv_device *d);

/* When a command began and ended, in nanoseconds of the device's clock. */
bool fv_cl_event_times(cl_event e, cl_ulong *begin, cl_ulong *end);

#endif
