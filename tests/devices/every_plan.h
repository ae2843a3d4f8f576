/* every_plan.h: makes dry plans of everything that a device supports; nothing is compiled or run.
 */
#ifndef FOVEA_TESTS_EVERY_PLAN_H
#define FOVEA_TESTS_EVERY_PLAN_H

#include "tests/peek.h"

typedef void every_plan_look(const fovea_plan *p, const fv_step *s);
/* Calls `look` for every step of: each family and head, in every size, type and picture format; the
 * other sizes of models; every attention, with the head sizes that models have; language models;
 * and the causal operations. Returns the number of models that could not be loaded or planned, and
 * names them on stderr. */
uint32_t every_plan(fovea_device *device, every_plan_look *look);

#endif
