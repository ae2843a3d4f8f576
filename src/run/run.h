/* run.h: runs frames and operations of a plan that is ready. */
#ifndef FOVEA_SRC_RUN_H
#define FOVEA_SRC_RUN_H

#include <fovea/operations.h>

#include "plan/plan.h"

/* Checks a plane of a frame, and sets *stride to its row stride in bytes. Returns FOVEA_EINVAL if
 * the plane is not valid. */
fovea_status fv_frame_plane(const fovea_plan *p, const fovea_frame *frame, uint32_t plane,
                            uint64_t *stride);

/* Binds the planes of frame `index` of a batch to the plan's first inputs. */
fovea_status fv_frame_bind(fovea_plan *p, const fovea_frame *frame, uint32_t index);

/* Does the same as fv_frame_bind, for a plan that cuts crops from frames. */
fovea_status fv_crop_bind(fovea_plan *p, const fovea_frame *frame, uint32_t index);

/* The input of a run: either frames in host memory, as many as there are outputs for, or an
 * external image, once its fence is signalled (NULL: at once). */
typedef struct fv_run_input {
    const fovea_frame *frame; /* NULL if the run reads an image */
    const fovea_external_image *image;
    const fovea_acquire_fence *acquire;
} fv_run_input;

/* Binds an external image of the plan's size and format. Sets *by_host to whether the host reads
 * it. */
fovea_status fv_external_frame_bind(fovea_plan *p, const fv_run_input *in, bool *by_host);

/* Does the same for a plan that cuts crops from frames: waits for the image, and has read it on
 * return. */
fovea_status fv_external_frame_crop(fovea_plan *p, const fv_run_input *in);

/* Implements fovea_submit and fovea_submit_external_image. */
fovea_status fv_run_submit(fovea_plan *p, const fv_run_input *in, const fovea_output *outs,
                           size_t n_outs, fovea_ticket *out);

/* Runs an operation on its first `rows` rows, continuing from the current state. `outputs` has an
 * element for each output of the plan. */
fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       const fovea_matrix *outputs);

#endif
