/* headroom.h: finds the maximum magnitudes of a step's values, to determine whether 16 bits can
 * represent them. */
#ifndef FOVEA_SRC_HEADROOM_H
#define FOVEA_SRC_HEADROOM_H

#include "trial/reference.h"

/* Returns the maximum finite magnitude in `rows` rows of `cols` elements with a row stride of `ld`
 * elements, and sets *lost to the number of infinite values and NaN. */
double fv_headroom_rows(const fv_given *g, uint64_t rows, uint64_t cols, uint64_t ld,
                        uint64_t *lost);

/* Returns the maximum magnitude in the merged state of a linear attention, which is stored as a
 * mean over the tokens; shifts and counts are left out. */
double fv_headroom_state(const fv_problem *p, const float *state);

/* Computes the maximum divisor, as a mean over the keys, for some queries of a LATTN_APPLY step
 * with these operands, or 0 if the step has no divisor. Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_headroom_divisor(double *out, const fv_args *args,
                                 const fv_given given[FV_OPERANDS]);

#endif
