/* ref_topk.h: the order of rows in TOPK. */
#ifndef FOVEA_SRC_REF_TOPK_H
#define FOVEA_SRC_REF_TOPK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether number x of row i precedes y of row k: larger numbers precede smaller ones, NaN
 * is last, and equal numbers are ordered by row. */
static inline bool fv_topk_before(float x, uint32_t i, float y, uint32_t k)
{
    const bool nan = x != x, other = y != y;
    if (nan != other)
        return other;
    return x > y || (!(x < y) && i < k);
}

#endif
