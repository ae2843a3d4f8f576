/* resized.h: positions of the pixels of a resized grid in the original one, in double precision. */
#ifndef FOVEA_TESTS_RESIZED_H
#define FOVEA_TESTS_RESIZED_H

#include <math.h>

#include "ops/op.h"

/* Returns the coordinate of pixel i of `to`, in pixels of `from`. flags: FV_FLAG_NEAREST,
 * FV_FLAG_ALIGN_CORNERS or 0. */
static inline double resized_coordinate(uint32_t i, uint32_t to, uint32_t from, uint32_t flags)
{
    if (flags & FV_FLAG_NEAREST)
        return floor((double)i * from / to);
    if (flags & FV_FLAG_ALIGN_CORNERS)
        return to > 1 ? (double)i * (from - 1) / (to - 1) : 0;
    return fmax(0, (i + 0.5) * from / to - 0.5);
}

#endif
