/* accuracy.h: measures on the caller's frames how much a plan's outputs differ from those in
 * float32. */
#ifndef FOVEA_SRC_ACCURACY_H
#define FOVEA_SRC_ACCURACY_H

#include <fovea/tuning.h>

#include "plan/plan.h"

typedef struct fv_accuracy_frames {
    const fovea_frame *frame;
    size_t count;
    uint64_t floats;    /* number of floats in all outputs of one frame */
    float *right;       /* outputs of all frames in float32 */
    float *given;       /* outputs of one frame */
    fovea_output *outs; /* the buffers to which a plan writes its outputs */
} fv_accuracy_frames;

/* Runs the frames through a plan in float32, and keeps its outputs. */
fovea_status fv_accuracy_open(fv_accuracy_frames *f, fovea_plan *plan, const fovea_frame *frame,
                              size_t count, fovea_accuracy *out);
void fv_accuracy_close(fv_accuracy_frames *f); /* a zeroed one is allowed */
/* Runs the same frames through another plan with the same outputs, and compares the outputs. */
fovea_status fv_accuracy_run(fv_accuracy_frames *f, fovea_plan *plan, fovea_accuracy *out);

#endif
