/* sequence_plan.h: plans that continue a sequence by a number of tokens. */
#ifndef FOVEA_SRC_PLAN_SEQUENCE_PLAN_H
#define FOVEA_SRC_PLAN_SEQUENCE_PLAN_H

#include <fovea/sequences.h>

#include "plan/plan.h"

/* EINVAL for options that no sequence could be planned with. */
fovea_status fv_sequence_check(const fovea_sequence_options *o);
typedef struct fv_sequence_request {
    uint32_t rows;          /* tokens at a time */
    const fovea_plan *kept; /* the plan whose sequence it continues; NULL: it has its own */
    bool dry;
} fv_sequence_request;
/* Inputs by name: ids, position, last; x, position of a mixer. */
fovea_status fv_sequence_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                              const fovea_sequence_options *o, const fv_sequence_request *request,
                              fv_wisdom *wisdom);

#endif
