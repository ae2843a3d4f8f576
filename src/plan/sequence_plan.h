/* sequence_plan.h: plans that continue a sequence by several tokens at each call. */
#ifndef FOVEA_SRC_PLAN_SEQUENCE_PLAN_H
#define FOVEA_SRC_PLAN_SEQUENCE_PLAN_H

#include <fovea/sequences.h>

#include "plan/plan.h"

/* Returns FOVEA_EINVAL for options that are wrong for every model. */
fovea_status fv_sequence_check(const fovea_sequence_options *o);
typedef struct fv_sequence_request {
    uint32_t rows;          /* number of tokens per call */
    const fovea_plan *kept; /* the plan whose sequence this plan continues; NULL: it has its own */
    bool dry;
} fv_sequence_request;
/* Makes such a plan. Its inputs are named ids, position and last, or x and position for a single
 * mixer. */
fovea_status fv_sequence_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                              const fovea_sequence_options *o, const fv_sequence_request *request,
                              fv_wisdom *wisdom);

#endif
