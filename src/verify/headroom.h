/* headroom.h: finds the largest magnitudes of a step's values, to see whether 16 bits can hold
 * them. */
#ifndef FOVEA_SRC_HEADROOM_H
#define FOVEA_SRC_HEADROOM_H

#include "trial/reference.h"

/* The largest finite magnitude in `rows` rows of `cols` elements with a row stride of `ld`
 * elements; *lost gets the number of infinite values and NaN. */
double fv_headroom_rows(const fv_given *g, uint64_t rows, uint64_t cols, uint64_t ld,
                        uint64_t *lost);

/* The largest magnitude in the merged state of a linear attention, which is stored as a mean over
 * the tokens; its shifts and counts are left out. */
double fv_headroom_state(const fv_problem *p, const float *state);

/* The largest divisor, as a mean over the keys, among some queries of a LATTN_APPLY step with these
 * operands; 0 if it has none. ENOMEM. */
fovea_status fv_headroom_divisor(double *out, const fv_args *args,
                                 const fv_given given[FV_OPERANDS]);

#endif
