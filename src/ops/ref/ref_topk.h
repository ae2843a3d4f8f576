/* ref_topk.h: the values of TOPK and their order. */
#ifndef FOVEA_SRC_REF_TOPK_H
#define FOVEA_SRC_REF_TOPK_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/contracts/rows.h"
#include "ops/kernel.h"

/* Returns the value at a place. */
static inline float fv_topk_value(const fv_args *a, const fv_call *c, uint32_t place)
{
    const uint32_t columns = a->prob.dim[FV_TOPK_COLUMNS];
    const uint32_t row = columns == 1 ? place : place / columns;
    return (
        (const float *)c->p[FV_TOPK_IN])[row * (size_t)a->ld[FV_TOPK_IN] + place - row * columns];
}

/* Returns whether value x at place i precedes y at place k: larger values precede smaller ones, NaN
 * is last, and equal values are ordered by place. */
static inline bool fv_topk_before(float x, uint32_t i, float y, uint32_t k)
{
    const bool nan = x != x, other = y != y;
    if (nan != other)
        return other;
    return x > y || (!(x < y) && i < k);
}

#endif
