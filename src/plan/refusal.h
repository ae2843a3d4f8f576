/* refusal.h: kernels that the device refused for a step of a plan, because their program does not
 * build, or no work-group of the device is large enough. The plan uses the next kernel of the op
 * instead. */
#ifndef FOVEA_SRC_REFUSAL_H
#define FOVEA_SRC_REFUSAL_H

#include "graph/graph.h"
#include "wisdom/wisdom.h"

struct fovea_plan;

typedef struct fv_refusal {
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE]; /* texts of the fact in wisdom */
    char why[384];                                             /* the error message */
    bool lasting; /* later plans must not try this kernel either */
} fv_refusal;

/* Records that the step's kernel could not be bound, with fovea_error() as the reason. */
fovea_status fv_plan_refuse(struct fovea_plan *p, const fv_step *s, bool lasting);
bool fv_plan_refused(const struct fovea_plan *p, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *prob);
/* Returns why the first kernel that was refused for such a problem was refused, or NULL if no
 * kernel was. */
const char *fv_plan_refused_why(const struct fovea_plan *p, const fv_problem *prob);
/* Stores the refusals in the plan's wisdom, so that later plans on such a device do not try these
 * kernels. It is called once the plan is bound, when other kernels are known to work. */
void fv_plan_keep_refusals(const struct fovea_plan *p);

#endif
