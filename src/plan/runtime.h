/* runtime.h: the parts of a plan that change while it runs: its queue, the frames in flight, the
 * trace. Planning allocates them last (bind.c). Only src/run uses them, and src/run allocates
 * nothing. */
#ifndef FOVEA_SRC_PLAN_RUNTIME_H
#define FOVEA_SRC_PLAN_RUNTIME_H

#include <fovea/plans.h>

#include "device/backend.h"
#include "device/import.h"
#include "plan/result_scratch.h"

/* A frame in flight. The frame with number `ticket` is at index ticket % FV_FLIGHTS. */
typedef struct fv_flight {
    fv_fence fence;      /* fence of the backend; after a fallback, the fallback plan's ticket */
    fovea_status status; /* set once the frame is done */
    const fovea_external_image *read; /* image that the host reads until the frame is done; or
                                         NULL */
    /* Set only if there is a fallback plan: the arguments of fovea_submit that the plan does not
     * keep, and the time of the call: */
    const fovea_external_image *image; /* image that replaces frames in memory; or NULL */
    uint32_t outs;
    double since;
} fv_flight;
#define FV_FLIGHTS 4 /* more than the maximum number of frames in flight of any device (2) */

/* Ends the host's access to the external image that the frame was read from, if the frame has one.
 */
static inline void fv_flight_end(fv_flight *f)
{
    fv_external_image_end(f->read);
    f->read = NULL;
}

/* The plan that takes over when the device is lost. */
typedef struct fv_fallback {
    fovea_plan *plan;    /* NULL: no fallback */
    fovea_frame *frames; /* the frames in flight, one batch after the other */
    fovea_output *outs;  /* outputs of these frames */
    double patience;     /* seconds after which the device counts as hung if a frame is not done */
    double completed;    /* time at which the last frame was done */
    bool used;
    bool instead; /* this plan was made for the CPU, because its device could not run it */
} fv_fallback;

typedef struct fv_runtime {
    fv_queue *queue;
    fv_bound **bound;               /* one per live step; in a batch, those of frame 0, then
                                       those of frame 1, and so on */
    fv_sweep *sweep;                /* the sweeps as the backend's submit reads them */
    fovea_ticket ticket, completed; /* the last ticket given out, and the last ticket that is
                                       done */
    fv_flight flight[FV_FLIGHTS];
    double seconds; /* seconds that the device needed for the last frame */
    fv_trace trace; /* event NULL: no trace */
    fv_fallback fallback;
    fv_result_scratch results;
} fv_runtime;

#endif
