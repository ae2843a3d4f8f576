/* rounded_operands.h: products of bfloat16 in training. */
#ifndef FOVEA_SRC_ADAPT_ROUNDED_OPERANDS_H
#define FOVEA_SRC_ADAPT_ROUNDED_OPERANDS_H

#include "graph/emit.h"

/* Rounds the operands of the list's products of bfloat16, in the steps that write them or by steps
 * of their own. On failure the builder has a part of the steps. */
fovea_status fv_operands_round(fv_builder *b);

#endif
