/* ref_pick.h: finds the rows of PICK. */
#ifndef FOVEA_SRC_REF_PICK_H
#define FOVEA_SRC_REF_PICK_H

#include <stddef.h>
#include <stdint.h>

/* Returns the row of `in` that is copied to row i of the output: row number index[0], or i if
 * `index` is NULL. Returns NULL for a row of zeros. */
static inline const float *fv_pick_row(const float *in, size_t ld, uint32_t from,
                                       const float *index, uint32_t i)
{
    if (!index)
        return in + i * ld;
    return *index >= 0.f && *index < (float)from ? in + (size_t)*index * ld : NULL;
}

#endif
