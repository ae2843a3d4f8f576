/* dry_launch.h: what the steps of a dry plan would be bound with: enough of it to tell the programs
 * that they ask for. */
#ifndef FOVEA_TESTS_DRY_LAUNCH_H
#define FOVEA_TESTS_DRY_LAUNCH_H

#include "tests/peek.h"

/* The launch that plan/bind.c makes, without what a dry plan lacks: memory, and addresses in it. */
void dry_launch(const fovea_plan *p, const fv_step *s, fv_launch *l);
/* "elu1"; "-" of a kernel without a mechanism. */
const char *dry_mechanism(uint16_t mech);

#endif
