/* rounded_factors.h: products of bfloat16 in training. */
#ifndef FOVEA_SRC_ADAPT_ROUNDED_FACTORS_H
#define FOVEA_SRC_ADAPT_ROUNDED_FACTORS_H

#include "graph/emit.h"

/* Rounds what the list's products of bfloat16 multiply, where it is written or by steps of its own.
 * On failure the builder has a part of the steps. */
fovea_status fv_factors_round(fv_builder *b);

#endif
