/* trial_fill.h: fills the operands of a trial with random values. */
#ifndef FOVEA_SRC_TRIAL_FILL_H
#define FOVEA_SRC_TRIAL_FILL_H

#include "graph/emit.h"

/* A generated (rows, cols) tensor for weight operand `o` of a step, with values of about the size
 * that models have. */
fv_tensor fv_trial_weight(const fv_problem *p, uint32_t o, uint32_t rows, uint32_t cols);

/* Writes random values of operand `o` to `out`: `rows` rows of `cols` elements of `type`, with a
 * row stride of `ld` elements. Partial and merged states are computed by the reference from random
 * keys and values. ENOMEM. */
fovea_status fv_trial_fill(const fv_args *a, uint32_t o, enum fv_type type, uint64_t rows,
                           uint32_t cols, uint32_t ld, void *out);

#endif
