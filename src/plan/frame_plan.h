/* frame_plan.h: plans of a whole model for frames of one size and format. */
#ifndef FOVEA_SRC_PLAN_FRAME_PLAN_H
#define FOVEA_SRC_PLAN_FRAME_PLAN_H

#include "plan/plan.h"

/* Sets *own to the caller's options with the defaults filled in; own->preprocess points to *rule.
 */
fovea_status fv_plan_options(fovea_plan_options *own, fovea_preprocess *rule,
                             const fovea_plan_options *options);
/* Makes a plan of a model, with choices that it looks up in `wisdom`: fovea_plan_create without
 * tuning and fallback. */
fovea_status fv_frame_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                           const fovea_plan_options *options, fv_wisdom *wisdom);
/* Emits the steps of the plan, for fv_plan_finish. Sets *b to the emitter, with which the caller
 * can add steps. */
fovea_status fv_frame_emit(fovea_plan **out, fv_builder *b, const fovea_model *model,
                           fovea_device *device, const fovea_plan_options *options,
                           fv_wisdom *wisdom, const fv_training *training);

/* Finds the precision of products that FOVEA_COMPUTE_AUTO chooses on a device for a plan of
 * `options`; `a` looks up the device's facts. Returns the reason as fovea_plan_info names it:
 * "wisdom", "prior" or "device". */
const char *fv_frame_products(fv_product_choice *out, const fv_advice *a,
                              const fovea_device_info *device, const fovea_model *model,
                              const fv_emit_options *options);

/* Returns FOVEA_EINVAL for options that are wrong for every model. */
fovea_status fv_frame_check(const fovea_plan_options *options);

#endif
