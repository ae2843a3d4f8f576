/* trial.h: single-step trials: runs one step alone on a device, on its own operands, to verify and
 * to time kernels.
 *
 * A trial (fv_trial) has the operands of one step, with random values, between guard zones; a trial
 * kernel (fv_trial_kernel) is one kernel with one set of knobs, bound to them. The kernels of a
 * trial share its operands, so that they can run alternately.
 */
#ifndef FOVEA_SRC_TRIAL_H
#define FOVEA_SRC_TRIAL_H

#include "plan/candidate.h"
#include "trial/reference.h"

typedef struct fv_trial fv_trial;
typedef struct fv_trial_kernel fv_trial_kernel;

/* A trial of step `s` of `g`: same problem, strides, scalars, tables and types of operands. `g` may
 * belong to a dry plan and must outlive the trial. At most `rows` rows (0: all). `tiles`: of a
 * plan; NULL: as the planner splits a step. `chunk`: rows of a call, streamed over the workers; 0:
 * stepwise, tiled as the planner does it. ENOMEM; the device's status. */
fovea_status fv_trial_open(fv_trial **out, fovea_device *device, const fv_graph *g,
                           const fv_step *s, const fv_step_tiles *tiles, uint32_t rows,
                           uint32_t chunk);
void fv_trial_close(fv_trial *r);

/* Binds a kernel that fits the problem, and packs the weights for it. If the device rejects it: the
 * device's status. */
fovea_status fv_trial_kernel_open(fv_trial_kernel **out, fv_trial *r, const fv_kernel *k,
                                  const fv_knobs *knobs);
void fv_trial_kernel_close(fv_trial_kernel *t);

/* Runs on poisoned output and scratch and compares with the reference: the whole output up to 2^24
 * operations, else a sample of 64 rows or of some heads; also checks that nothing else was written.
 * A wrong result is a verdict, not a failure. */
fovea_status fv_trial_kernel_verify(fv_trial_kernel *t, fv_verdict *out);

/* One run. *seconds: by the device's clock if it reports times, else wall time. */
fovea_status fv_trial_kernel_run(fv_trial_kernel *t, double *seconds);

#endif
