/* row.h: loads and stores rows of F32, F16 or BF16 as vectors of floats.
 *
 * Storing rounds to nearest even; subnormal values are exact both ways, NaN stays NaN. `type`
 * should be a constant where these are inlined, or the same for a whole loop. */
#ifndef FOVEA_PLATFORM_VEC_ROW_H
#define FOVEA_PLATFORM_VEC_ROW_H

#include "base/half.h"
#include "platform/cpu/vec/vec.h"

/* Loads n lanes from element i of the row on. Lanes from n on are zero, and memory beyond is not
 * touched. */
FV_FN fv_v fv_row_load(const void *row, enum fv_type type, size_t i, int n)
{
    if (type == FV_F32)
        return n == FV_W ? fv_load((const float *)row + i) : fv_load_n((const float *)row + i, n);
    const fv_h h = fv_load_h((const uint16_t *)row + i, n);
    return type == FV_F16 ? fv_of_f16(h) : fv_of_bf16(h);
}

FV_FN void fv_row_store(void *row, enum fv_type type, size_t i, fv_v x, int n)
{
    if (type == FV_F32)
        fv_store_n((float *)row + i, x, n);
    else
        fv_store_h((uint16_t *)row + i, type == FV_F16 ? fv_to_f16(x) : fv_to_bf16(x), n);
}

/* Converts n elements of a row from one type to another; may be in place if the types have the same
 * size. */
FV_FN void fv_row_convert(void *out, enum fv_type to, const void *in, enum fv_type from, size_t n)
{
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        fv_row_store(out, to, i, fv_row_load(in, from, i, FV_W), FV_W);
    if (i < n)
        fv_row_store(out, to, i, fv_row_load(in, from, i, (int)(n - i)), (int)(n - i));
}

#endif
