/* fetch.h: software prefetch into L2. Rows of one head lie far apart, each on a page of its own,
 * and windows are rows in any order: no hardware prefetcher predicts them. An address need not be
 * valid.
 */
#ifndef FOVEA_PLATFORM_VEC_FETCH_H
#define FOVEA_PLATFORM_VEC_FETCH_H

#include "platform/cpu/vec/vec.h"

FV_FN void fv_fetch(const float *x)
{
    __builtin_prefetch(x, 0, 2);
}

/* Rows [r, end) at x. */
FV_FN void fv_fetch_rows(const float *x, size_t ld, size_t r, size_t end, size_t width)
{
    for (; r < end; r++) {
        for (size_t i = 0; i < width; i += 16)
            fv_fetch(x + r * ld + i);
    }
}

#endif
