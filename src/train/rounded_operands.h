/* rounded_operands.h: rounds the operands of bfloat16 products in training. */
#ifndef FOVEA_SRC_ADAPT_ROUNDED_OPERANDS_H
#define FOVEA_SRC_ADAPT_ROUNDED_OPERANDS_H

#include "graph/emit.h"

/* Rounds the operands of the list's bfloat16 products, in the steps that write them or by separate
 * steps. After a failure, the builder has only a part of the steps. */
fovea_status fv_operands_round(fv_builder *b);

#endif
