/* fallback.h: the plan on the CPU that takes over when a plan's device is lost, or that is made
 * instead if the device cannot run any plan. */
#ifndef FOVEA_SRC_RUN_FALLBACK_H
#define FOVEA_SRC_RUN_FALLBACK_H

#include "run/run.h"

/* Creates the fallback plan that the options ask for, if any. */
fovea_status fv_fallback_make(fovea_plan *p, const fovea_plan_options *options);
/* Handles a plan that could not be made, with `status` and the current message. Makes a plan for
 * the CPU instead if the options ask for one in place of a lost device and the device was the
 * reason; otherwise returns `status` with the same message. */
fovea_status fv_fallback_instead(fovea_plan **out, fovea_status status, const fovea_model *model,
                                 const fovea_device *device, const fovea_plan_options *options);
void fv_fallback_free(fv_fallback *s);
/* Records a submitted batch. */
void fv_fallback_note(fovea_plan *p, fovea_ticket ticket, const fv_run_input *in,
                      const fovea_output *outs, uint32_t frames);
/* Returns the seconds after which the device counts as hung if this frame is not done. */
double fv_fallback_patience(const fovea_plan *p, fovea_ticket ticket);
/* Submits all frames in flight to the fallback plan, where fovea_wait then waits for them. Call
 * this when the device was lost. */
fovea_status fv_fallback_take_over(fovea_plan *p);
fovea_status fv_fallback_wait(fovea_plan *p, fovea_ticket ticket, double timeout);

#endif
