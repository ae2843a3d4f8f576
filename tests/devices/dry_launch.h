/* dry_launch.h: the launch of a dry plan's step, with enough of its fields to find the programs
 * that it needs. */
#ifndef FOVEA_TESTS_DRY_LAUNCH_H
#define FOVEA_TESTS_DRY_LAUNCH_H

#include "tests/peek.h"

/* Makes the launch that plan/bind.c would make, but without memory and addresses, which a dry plan
 * lacks. */
void dry_launch(const fovea_plan *p, const fv_step *s, fv_launch *l);
/* Returns a mechanism's name, such as "elu1", or "-" for a kernel without a mechanism. */
const char *dry_mechanism(uint16_t mech);

#endif
