/* trial.h: single-step trials, which run one step on a device, on the trial's own operands, to
 * verify and to time kernels. A trial (fv_trial) has the operands of one step, with random values,
 * between guard bytes. A trial kernel (fv_trial_kernel) is one kernel with one set of knobs, bound
 * to these operands. The kernels of a trial share its operands, so that they can run alternately.
 */
#ifndef FOVEA_SRC_TRIAL_H
#define FOVEA_SRC_TRIAL_H

#include "plan/candidate.h"
#include "trial/reference.h"

typedef struct fv_trial fv_trial;
typedef struct fv_trial_kernel fv_trial_kernel;

/* Makes a trial of step `s` of `g`, with the same problem, strides, scalars, tables and types of
 * operands. `g` may belong to a dry plan and must outlive the trial. The trial has at most `rows`
 * rows (0: all). `tiles` is how a plan splits the step into tiles; NULL means the planner's split.
 * If `chunk` is not 0, the step is streamed in calls of `chunk` rows; otherwise it runs in tiles.
 * Returns FOVEA_ENOMEM or the device's status on failure. */
fovea_status fv_trial_open(fv_trial **out, fovea_device *device, const fv_graph *g,
                           const fv_step *s, const fv_step_tiles *tiles, uint32_t rows,
                           uint32_t chunk);
void fv_trial_close(fv_trial *r);

/* Binds a kernel that supports the problem, and packs the weights for it. Returns the device's
 * status if the device rejects the kernel. */
fovea_status fv_trial_kernel_open(fv_trial_kernel **out, fv_trial *r, const fv_kernel *k,
                                  const fv_knobs *knobs);
void fv_trial_kernel_close(fv_trial_kernel *t);

/* Runs the kernel with output and scratch memory full of NaN, and compares the output, or a sample
 * of it, with the reference, as fv_reference_open defines. Also checks that nothing else was
 * written. A wrong result is a verdict, not a failure. */
fovea_status fv_trial_kernel_verify(fv_trial_kernel *t, fv_verdict *out);

/* Runs the kernel once. *seconds is the device's time if the device reports times, else wall time.
 */
fovea_status fv_trial_kernel_run(fv_trial_kernel *t, double *seconds);

#endif
