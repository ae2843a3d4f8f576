/* check_differences.h: the oracles of dense gradients against finite differences. */
#ifndef FOVEA_TESTS_CHECK_DIFFERENCES_H
#define FOVEA_TESTS_CHECK_DIFFERENCES_H

#include "tests/kernels/check.h"

/* Counts the gradients that are right as passed, the others as failed. */
void check_differences(check_result *out);

#endif
