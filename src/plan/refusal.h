/* refusal.h: kernels that the device did not take for a step of a plan: the program does not build,
 * or no work-group of the device holds it. The plan goes on with the next kernel of the op. */
#ifndef FOVEA_SRC_REFUSAL_H
#define FOVEA_SRC_REFUSAL_H

#include "graph/graph.h"
#include "wisdom/wisdom.h"

struct fovea_plan;

typedef struct fv_refusal {
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE]; /* as facts of wisdom have them */
    char why[384];                                             /* the message */
} fv_refusal;

/* Notes that the step's kernel was not bound, as fovea_error() says. */
fovea_status fv_plan_refuse(struct fovea_plan *p, const fv_step *s);
bool fv_plan_refused(const struct fovea_plan *p, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *prob);
/* Why the first kernel for such a problem was refused; NULL: none was. */
const char *fv_plan_refused_why(const struct fovea_plan *p, const fv_problem *prob);
/* Tells the plan's wisdom, so that other plans on such a device do not try, now that it is known
 * that others do work. */
void fv_plan_keep_refusals(const struct fovea_plan *p);

#endif
