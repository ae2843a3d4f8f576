/* tune.h: tunes before a plan is made, if its options ask for it. */
#ifndef FOVEA_SRC_TUNE_H
#define FOVEA_SRC_TUNE_H

#include "plan/op_plan.h"

/* fv_tune_rigor resolves FOVEA_RIGOR_DEFAULT, and returns FOVEA_EINVAL for an unknown rigor.
 * fv_tune_for tunes if the options ask for it: the options of a model's `plan` or of an operation
 * `op`; the other is NULL. */
fovea_status fv_tune_rigor(fovea_rigor *out, fovea_rigor asked);
fovea_status fv_tune_for(const fovea_model *model, fovea_device *device,
                         const fovea_plan_options *plan, const fv_op_options *op);

#endif
