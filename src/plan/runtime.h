/* runtime.h: what changes while a plan runs: its queue, the frames in flight, the trace. Planning
 * ends with its allocation (bind.c); src/run alone works with it, and allocates nothing.
 */
#ifndef FOVEA_SRC_PLAN_RUNTIME_H
#define FOVEA_SRC_PLAN_RUNTIME_H

#include <fovea/plans.h>

#include "device/backend.h"
#include "device/import.h"
#include "plan/result_scratch.h"

/* Frame number `ticket` is at ticket % FV_FLIGHTS. */
typedef struct fv_flight {
    fv_fence fence;      /* of the backend; after a fallback: the fallback plan's ticket */
    fovea_status status; /* once it is done */
    const fovea_external_image *read; /* by the host until it is done; or NULL */
    /* With a fallback plan, the arguments of fovea_submit that the plan does not keep, and the time
     * of the call: */
    const fovea_external_image *image; /* in place of the frames; or NULL */
    uint32_t outs;
    double since;
} fv_flight;
#define FV_FLIGHTS 4 /* more frames than any device has in flight (2) */

/* Ends the host's access to the external image that the frame was read from, if there is one. */
static inline void fv_flight_end(fv_flight *f)
{
    fv_external_image_end(f->read);
    f->read = NULL;
}

/* The plan that takes over when the device is lost. */
typedef struct fv_fallback {
    fovea_plan *plan;    /* NULL: no fallback */
    fovea_frame *frames; /* those in flight, one batch after the other */
    fovea_output *outs;  /* theirs */
    double patience;     /* seconds before the device counts as hung for a frame */
    double completed;    /* when the last frame was done */
    bool used;
} fv_fallback;

typedef struct fv_runtime {
    fv_queue *queue;
    fv_bound **bound;               /* one per live step, of one frame of a batch after the other */
    fv_sweep *sweep;                /* what submit gets */
    fovea_ticket ticket, completed; /* the last one given out; the last one that is done */
    fv_flight flight[FV_FLIGHTS];
    double seconds; /* of the device, for the last one */
    fv_trace trace; /* event NULL: off */
    fv_fallback fallback;
    fv_result_scratch results;
} fv_runtime;

#endif
