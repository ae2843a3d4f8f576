/* rehearse.h: one step alone on a device, on operands of its own: is a kernel right, how fast is
 * it.
 *
 * A rehearsal has the operands of one step, with random values, between guard zones; a take is one
 * kernel with one set of knobs, bound to them. The takes of a rehearsal share what they read, so
 * that they may be run in turns.
 */
#ifndef FOVEA_SRC_TRIAL_H
#define FOVEA_SRC_TRIAL_H

#include "graph/emit.h"
#include "trial/reference.h"

typedef struct fv_trial fv_trial;
typedef struct fv_trial_kernel fv_trial_kernel;

/* Step `s` of `b` as a plan has it: same problem, strides, scalars, tables and types of operands.
 * `b` may be a dry plan's and must outlive the rehearsal. At most `rows` rows (0: all of them).
 * `chunk`: rows of a call, streamed over the workers; 0: stepwise, tiled as the planner does it.
 * ENOMEM; what the device says. */
fovea_status fv_trial_open(fv_trial **out, fovea_device *device, const fv_builder *b,
                           const fv_step *s, uint32_t rows, uint32_t chunk);
void fv_trial_close(fv_trial *r);

/* Binds a kernel that fits the problem, with its own packing of the weights. Where the device
 * refuses it: the device's status. */
fovea_status fv_trial_kernel_open(fv_trial_kernel **out, fv_trial *r, const fv_kernel *k,
                                  const fv_knobs *knobs);
void fv_trial_kernel_close(fv_trial_kernel *t);

/* Runs on poisoned output and scratch and compares with the definition: all of the output up to
 * 2^24 operations, else 64 rows of it or some of its heads; and sees that nothing else was written.
 * A wrong result is a verdict, not a failure. */
fovea_status fv_trial_kernel_verify(fv_trial_kernel *t, fv_verdict *out);

/* One run. Seconds: the device's time where it tells it, else the clock's. */
fovea_status fv_trial_kernel_run(fv_trial_kernel *t, double *seconds);

#endif
