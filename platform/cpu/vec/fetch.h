/* fetch.h: software prefetch into L2. Rows of one head are far from each other, each on a page of
 * its own, and rows of windows are in any order, so hardware prefetchers predict neither.
 * Prefetched addresses need not be valid. */
#ifndef FOVEA_PLATFORM_VEC_FETCH_H
#define FOVEA_PLATFORM_VEC_FETCH_H

#include "base/half.h"
#include "platform/cpu/vec/vec.h"

FV_FN void fv_fetch(const void *x)
{
    __builtin_prefetch(x, 0, 2);
}

/* Prefetches rows [r, end) at x, of values of `type`. */
FV_FN void fv_fetch_rows_of(const void *x, enum fv_type type, size_t ld, size_t r, size_t end,
                            size_t width)
{
    const size_t line = 64 / fv_type_size(type);
    for (; r < end; r++) {
        for (size_t i = 0; i < width; i += line)
            fv_fetch(fv_element(x, type, r * ld + i));
    }
}

FV_FN void fv_fetch_rows(const float *x, size_t ld, size_t r, size_t end, size_t width)
{
    fv_fetch_rows_of(x, FV_F32, ld, r, end, width);
}

#endif
