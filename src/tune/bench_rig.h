/* stage.h: a plan with inputs and outputs of its own, so that parts of it can be run alone. */
#ifndef FOVEA_SRC_STAGE_H
#define FOVEA_SRC_STAGE_H

#include "plan/plan.h"

typedef struct fv_bench_rig {
    fovea_plan *plan;
    void **external; /* by value of the plan; NULL: it is none of the caller's */
} fv_bench_rig;

/* Takes the plan over, also on failure, gives it random inputs and runs it once. */
fovea_status fv_bench_rig_open(fv_bench_rig *out, fovea_plan *plan);
void fv_bench_rig_close(fv_bench_rig *s); /* a zeroed one is fine */
/* Sweeps [first, first + count), on whatever the ones before have left. */
fovea_status fv_bench_rig_run(fv_bench_rig *s, uint32_t first, uint32_t count, double *seconds);
/* Step `step` of a sweep that is not streamed, alone. */
fovea_status fv_bench_rig_step(fv_bench_rig *s, uint32_t sweep, uint32_t step);

#endif
