/* trial_fill.h: the random operands of a trial. */
#ifndef FOVEA_SRC_TRIAL_FILL_H
#define FOVEA_SRC_TRIAL_FILL_H

#include "graph/emit.h"

/* A generated (rows, cols) tensor for weight operand `o` of a step, with values as large as in
 * models. */
fv_tensor fv_trial_weight(const fv_problem *p, uint32_t o, uint32_t rows, uint32_t cols);

/* Values of operand `o`: `rows` rows of `cols`, `ld` elements of `type` apart. Partial and merged
 * states are computed by the reference from random keys and values. ENOMEM. */
fovea_status fv_trial_fill(const fv_args *a, uint32_t o, enum fv_type type, uint64_t rows,
                           uint32_t cols, uint32_t ld, void *out);

#endif
