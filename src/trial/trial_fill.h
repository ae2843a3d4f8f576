/* trial_fill.h: fills the operands of a trial with random values. */
#ifndef FOVEA_SRC_TRIAL_FILL_H
#define FOVEA_SRC_TRIAL_FILL_H

#include "graph/emit.h"

/* Makes a generated (rows, cols) tensor for weight operand `o` of a step, with values of about the
 * same size as in models. */
fv_tensor fv_trial_weight(const fv_problem *p, uint32_t o, uint32_t rows, uint32_t cols);

/* Writes random values of operand `o` to `out`: `rows` rows of `cols` elements of `type`, with a
 * row stride of `ld` elements. The reference computes partial and merged states from random keys
 * and values. Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_trial_fill(const fv_args *a, uint32_t o, enum fv_type type, uint64_t rows,
                           uint32_t cols, uint32_t ld, void *out);

#endif
