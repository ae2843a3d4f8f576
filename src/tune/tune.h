/* tune.h: what a plan's options ask to be tuned before it is made. */
#ifndef FOVEA_SRC_TUNE_H
#define FOVEA_SRC_TUNE_H

#include "plan/op_plan.h"

/* The rigor that is meant; EINVAL for one that is unknown. What a plan's options ask to be
 * tuned before it is made: of `plan` or `op`, the other is NULL. */
fovea_status fv_tune_rigor(fovea_rigor *out, fovea_rigor asked);
fovea_status fv_tune_for(const fovea_model *model, fovea_device *device,
                         const fovea_plan_options *plan, const fv_op_options *op);

#endif
