/* check_differences.h: checks the oracles of dense gradients by finite differences. */
#ifndef FOVEA_TESTS_CHECK_DIFFERENCES_H
#define FOVEA_TESTS_CHECK_DIFFERENCES_H

#include "tests/kernels/check.h"

/* Counts gradients that agree as passed, the others as failed. */
void check_differences(check_result *out);

#endif
