/* refusal.h: kernels that the device refused for a step of a plan: their program does not build, or
 * no work-group of the device is large enough. The plan uses the next kernel of the op instead. */
#ifndef FOVEA_SRC_REFUSAL_H
#define FOVEA_SRC_REFUSAL_H

#include "graph/graph.h"
#include "wisdom/wisdom.h"

struct fovea_plan;

typedef struct fv_refusal {
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE]; /* the texts of a fact of wisdom */
    char why[384];                                             /* the message */
} fv_refusal;

/* Records that the step's kernel could not be bound, with the reason that fovea_error() has. */
fovea_status fv_plan_refuse(struct fovea_plan *p, const fv_step *s);
bool fv_plan_refused(const struct fovea_plan *p, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *prob);
/* Why the first kernel that was refused for such a problem was refused; NULL: no kernel was. */
const char *fv_plan_refused_why(const struct fovea_plan *p, const fv_problem *prob);
/* Stores the refusals in the plan's wisdom, so that later plans on such a device do not try these
 * kernels. Called once the plan is bound, when it is known that other kernels work. */
void fv_plan_keep_refusals(const struct fovea_plan *p);

#endif
