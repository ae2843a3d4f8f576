/* upsample.h: finds the source of a pixel of UPSAMPLE along one side of the grid, for C and for GPU
 * kernels. It uses only what OpenCL C, CUDA C++ and C have in common. */
#ifndef FOVEA_SRC_UPSAMPLE_H
#define FOVEA_SRC_UPSAMPLE_H

#include "ops/op.h"

#define FV_UPSAMPLE_LONGEST 65535 /* maximum side, so that width * height fits 32 bits */

/* A position between pixels `low` and `high`, at `part` of their distance from `low`. */
typedef struct fv_upsample_source {
    uint32_t low, high;
    float part;
} fv_upsample_source;

/* Returns the source of pixel i of `to`, given `from` input pixels, for the FV_FLAG_* of UPSAMPLE.
 * It is computed in integers, because along a long side a float is too imprecise for the
 * coordinate. */
static inline fv_upsample_source fv_upsample_at(uint32_t i, uint32_t to, uint32_t from,
                                                uint32_t flags)
{
    const uint32_t corners = flags & FV_FLAG_ALIGN_CORNERS, nearest = flags & FV_FLAG_NEAREST;
    const uint32_t at = i * (corners ? from - 1 : from);
    uint32_t unit = corners ? (to > 1 ? to - 1 : 1) : to; /* the coordinate is at / unit, .. */
    fv_upsample_source s;
    s.low = at / unit;
    uint32_t rest = nearest ? 0 : at % unit;
    if (!corners && !nearest) {
        /* .. moved by (from / to - 1) / 2, forwards or backwards */
        const uint32_t forward = 2 * rest + from;
        unit = 2 * to;
        if (forward >= to) {
            s.low += (forward - to) / unit;
            rest = (forward - to) % unit;
        } else {
            rest = s.low > 0 ? forward + to : 0;
            s.low -= s.low > 0;
        }
    }
    s.low = s.low < from ? s.low : from - 1;
    s.high = s.low + 1 < from ? s.low + 1 : s.low;
    s.part = (float)rest / (float)unit;
    return s;
}

#endif
