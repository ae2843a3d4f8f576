/* check_lattn.h: what linear attention should give, for check_wlattn.c too. */
#ifndef FOVEA_TESTS_CHECK_LATTN_H
#define FOVEA_TESTS_CHECK_LATTN_H

#include "check.h"

/* A value and its error. */
typedef struct check_known {
    double v, e;
} check_known;

/* What LATTN_REDUCE should leave of group `number`: heads states. */
void check_lattn_state(const check_case *c, uint32_t number, double *want, double *allowed);

/* What LATTN_APPLY should make of query `row` and the states of all heads. In a case of another op
 * their errors are independent of each other. */
void check_lattn_query(const check_case *c, uint32_t row, const check_known *state, double *want,
                       double *allowed);

#endif
