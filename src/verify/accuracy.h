/* accuracy.h: how far a plan's outputs are from those in float32, measured on the caller's frames.
 */
#ifndef FOVEA_SRC_ACCURACY_H
#define FOVEA_SRC_ACCURACY_H

#include <fovea/tuning.h>

#include "plan/plan.h"

typedef struct fv_accuracy_frames {
    const fovea_frame *frame;
    size_t count;
    uint64_t floats;    /* number of floats in all outputs of one frame */
    float *right;       /* outputs of all frames in float32 */
    float *given;       /* of one frame */
    fovea_output *outs; /* where a plan writes to */
} fv_accuracy_frames;

/* Runs the frames through a plan in float32, and keeps its outputs. */
fovea_status fv_accuracy_open(fv_accuracy_frames *f, fovea_plan *plan, const fovea_frame *frame,
                              size_t count, fovea_accuracy *out);
void fv_accuracy_close(fv_accuracy_frames *f); /* a zeroed one is fine */
/* Runs the same frames through another plan with the same outputs, and compares. */
fovea_status fv_accuracy_run(fv_accuracy_frames *f, fovea_plan *plan, fovea_accuracy *out);

#endif
