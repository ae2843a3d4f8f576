/* headroom.h: how large the numbers of a step are, for 16 bits to hold them or not. */
#ifndef FOVEA_SRC_HEADROOM_H
#define FOVEA_SRC_HEADROOM_H

#include "trial/reference.h"

/* The largest finite size among `rows` rows of `cols`, `ld` elements apart; *lost: others. */
double fv_headroom_rows(const fv_given *g, uint64_t rows, uint64_t cols, uint64_t ld,
                        uint64_t *lost);

/* The largest number of a linear attention's merged state, a mean over the tokens; shift and count
 * are none of it. */
double fv_headroom_state(const fv_problem *p, const float *state);

/* The largest divisor, a mean over the keys, of some queries of a LATTN_APPLY step with these
 * operands; 0 where there is none. ENOMEM. */
fovea_status fv_headroom_divisor(double *out, const fv_args *args,
                                 const fv_given given[FV_OPERANDS]);

#endif
