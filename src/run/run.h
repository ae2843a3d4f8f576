/* run.h: frames and operations of a plan that is ready. */
#ifndef FOVEA_SRC_RUN_H
#define FOVEA_SRC_RUN_H

#include "plan/plan.h"

/* Checks a plane of a frame; EINVAL. *stride gets the bytes from row to row. */
fovea_status fv_frame_plane(const fovea_plan *p, const fovea_frame *frame, uint32_t plane,
                            uint64_t *stride);

/* Binds the planes of a frame to the plan's first inputs. */
fovea_status fv_frame_bind(fovea_plan *p, const fovea_frame *frame);

/* Runs an operation on its first `rows` rows, continuing from the current state. */
fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       fovea_matrix output);

#endif
