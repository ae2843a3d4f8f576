/* sequence_plan.h: plans that continue a sequence by some tokens at each call. */
#ifndef FOVEA_SRC_PLAN_SEQUENCE_PLAN_H
#define FOVEA_SRC_PLAN_SEQUENCE_PLAN_H

#include <fovea/sequences.h>

#include "plan/plan.h"

/* EINVAL for options that are wrong for every model. */
fovea_status fv_sequence_check(const fovea_sequence_options *o);
typedef struct fv_sequence_request {
    uint32_t rows;          /* tokens at a time */
    const fovea_plan *kept; /* the plan whose sequence it continues; NULL: it has its own */
    bool dry;
} fv_sequence_request;
/* The inputs' names are ids, position and last; for a single mixer x and position. */
fovea_status fv_sequence_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                              const fovea_sequence_options *o, const fv_sequence_request *request,
                              fv_wisdom *wisdom);

#endif
