/* rehearse_fill.h: the random values that a step is rehearsed on. */
#ifndef FOVEA_SRC_TRIAL_FILL_H
#define FOVEA_SRC_TRIAL_FILL_H

#include "graph/emit.h"

/* A generator of the weight that operand `o` of a step is: (rows, cols), of sizes that models
 * have. */
fv_tensor fv_trial_weight(const fv_problem *p, uint32_t o, uint32_t rows, uint32_t cols);

/* Values of operand `o`: `rows` rows of `cols`, `ld` elements of `type` apart. Partial and merged
 * states are what the definition makes of random keys and values. ENOMEM. */
fovea_status fv_trial_fill(const fv_args *a, uint32_t o, enum fv_type type, uint64_t rows,
                           uint32_t cols, uint32_t ld, void *out);

#endif
