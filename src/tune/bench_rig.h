/* bench_rig.h: a plan with its own inputs and outputs, so that single sweeps and steps of it can be
 * timed. */
#ifndef FOVEA_SRC_BENCH_RIG_H
#define FOVEA_SRC_BENCH_RIG_H

#include "plan/plan.h"

typedef struct fv_bench_rig {
    fovea_plan *plan;
    void **external; /* memory per value of the plan; NULL for values that are neither input nor
                        output */
} fv_bench_rig;

/* Opens a rig. Takes ownership of the plan, also on failure; fills its inputs with random values
 * and runs it once. */
fovea_status fv_bench_rig_open(fv_bench_rig *out, fovea_plan *plan);
void fv_bench_rig_close(fv_bench_rig *s); /* a zeroed one is allowed */
/* Runs sweeps [first, first + count) on the values of earlier runs. */
fovea_status fv_bench_rig_run(fv_bench_rig *s, uint32_t first, uint32_t count, double *seconds);
/* Runs only step `step` of a sweep, which must not be streamed. */
fovea_status fv_bench_rig_step(fv_bench_rig *s, uint32_t sweep, uint32_t step);

#endif
