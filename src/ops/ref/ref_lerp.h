/* ref_lerp.h: finds the rows from which a row of LERP is interpolated. */
#ifndef FOVEA_SRC_REF_REF_LERP_H
#define FOVEA_SRC_REF_REF_LERP_H

#include "ops/kernel.h"

/* A position between rows `low` and `high`, at `part` of their distance from `low`. */
typedef struct fv_lerp_source {
    uint32_t low, high;
    float part;
} fv_lerp_source;

/* Returns the source of output row i of `rows`, given `from` input rows. It is computed in
 * integers, because with many rows a float is too imprecise for the coordinate. 2 * rows * from
 * must not exceed 2^63. */
static inline fv_lerp_source fv_lerp_at(uint32_t i, uint32_t rows, uint32_t from)
{
    const uint64_t at = (2 * (uint64_t)i + 1) * from, unit = 2 * (uint64_t)rows;
    if (at <= rows)
        return (fv_lerp_source){0, 0, 0.f};
    const uint64_t low = (at - rows) / unit;
    if (low + 1 >= from)
        return (fv_lerp_source){from - 1, from - 1, 0.f};
    return (fv_lerp_source){(uint32_t)low, (uint32_t)low + 1,
                            (float)((double)((at - rows) % unit) / (double)unit)};
}

#endif
