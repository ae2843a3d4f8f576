/* every_plan.h: plans of everything that a device may be asked for, dry: nothing is compiled or
 * run. */
#ifndef FOVEA_TESTS_EVERY_PLAN_H
#define FOVEA_TESTS_EVERY_PLAN_H

#include "tests/peek.h"

typedef void every_plan_look(const fovea_plan *p, const fv_step *s);
/* Looks at every step of: each family and head, in every size, type and picture format; the other
 * sizes of models; every attention, for heads as wide as models have them; language models;
 * and the causal operations. Returns how many models could not be loaded, or have no plan at all;
 * it says which on stderr. */
uint32_t every_plan(fovea_device *device, every_plan_look *look);

#endif
