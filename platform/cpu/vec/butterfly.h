/* butterfly.h: Walsh-Hadamard transforms of blocks of at most 64 floats, in vec.h's vector
 * functions. src/ops/quantise.h fixes the order of operations, so results are the same to the
 * bit. */
#ifndef FOVEA_PLATFORM_VEC_BUTTERFLY_H
#define FOVEA_PLATFORM_VEC_BUTTERFLY_H

#include <math.h>

#include "platform/cpu/vec/row.h"
#include "platform/cpu/vec/vec.h"

enum { FV_ROTATED = 64 / FV_W }; /* vectors of 64 floats */

/* Returns the vector whose lane i is lane i ^ stride of x. stride < FV_W is a constant where this
 * is inlined. */
FV_FN fv_v fv_partner(fv_v x, int stride)
{
#if defined FV_ISA_C || defined FV_ISA_RVV
    float lane[FV_W], other[FV_W];
    fv_store(lane, x);
    for (int i = 0; i < FV_W; i++)
        other[i] = lane[i ^ stride];
    return fv_load(other);
#elif FV_W == 16
    return stride == 1   ? _mm512_permute_ps(x, 0xb1)
           : stride == 2 ? _mm512_permute_ps(x, 0x4e)
           : stride == 4 ? _mm512_shuffle_f32x4(x, x, 0xb1)
                         : _mm512_shuffle_f32x4(x, x, 0x4e);
#elif FV_W == 8
    return stride == 1   ? _mm256_permute_ps(x, 0xb1)
           : stride == 2 ? _mm256_permute_ps(x, 0x4e)
                         : _mm256_permute2f128_ps(x, x, 1);
#else
    return stride == 1 ? vrev64q_f32(x) : vextq_f32(x, x, 2);
#endif
}

/* Computes one stage of the transform: lanes whose number does not have the bit `stride` get sums,
 * the others differences. */
FV_FN fv_v fv_butterfly(fv_v x, int stride)
{
    float sign[FV_W];
    for (int i = 0; i < FV_W; i++)
        sign[i] = i & stride ? -1.f : 1.f;
    return fv_fma(x, fv_load(sign), fv_partner(x, stride)); /* the product is exact */
}

/* Transforms each block of `block` floats among the 64. `block`: a power of two, at most 64. */
FV_FN void fv_rotate(fv_v x[FV_ROTATED], uint32_t block)
{
    FV_UNROLL
    for (int stride = FV_ROTATED / 2; stride > 0; stride /= 2) {
        if ((uint32_t)stride * FV_W >= block)
            continue;
        FV_UNROLL
        for (int i = 0; i < FV_ROTATED; i++) {
            if (i & stride)
                continue;
            const fv_v a = x[i], b = x[i + stride];
            x[i] = fv_add(a, b);
            x[i + stride] = fv_sub(a, b);
        }
    }
    FV_UNROLL
    for (int stride = FV_W / 2; stride > 0; stride /= 2) {
        if ((uint32_t)stride >= block)
            continue;
        FV_UNROLL
        for (int i = 0; i < FV_ROTATED; i++)
            x[i] = fv_butterfly(x[i], stride);
    }
}

/* Loads floats [i, i + 64) of a row of k floats, and zeros beyond the row. */
FV_FN void fv_load_64(fv_v x[FV_ROTATED], const void *row, enum fv_type type, uint32_t i,
                      uint32_t k)
{
    FV_UNROLL
    for (uint32_t v = 0; v < FV_ROTATED; v++) {
        const uint32_t at = i + v * FV_W;
        if (at + FV_W <= k)
            x[v] = fv_row_load(row, type, at, FV_W);
        else
            x[v] = at < k ? fv_row_load(row, type, at, fv_lanes(k - at)) : fv_set(0.f);
    }
}

/* Rotates a row into `y`, a buffer of a multiple of 64 floats. Returns its largest absolute value,
 * NaN if any value is infinite or NaN. `type` and `block` are constants where this is inlined. */
FV_FN float fv_rotate_row(float *y, const void *row, enum fv_type type, uint32_t k, uint32_t block)
{
    fv_v top = fv_set(0.f), poison = fv_set(0.f);
    for (uint32_t i = 0; i < k; i += 64) {
        fv_v x[FV_ROTATED];
        fv_load_64(x, row, type, i, block == 64 ? i + 64 : k);
        fv_rotate(x, block);
        FV_UNROLL
        for (int v = 0; v < FV_ROTATED; v++) {
            fv_store(y + i + FV_W * v, x[v]);
            top = fv_max(top, fv_abs(x[v]));
            poison = fv_fma(x[v], fv_set(0.f), poison);
        }
    }
    return fv_hsum(poison) == 0 ? fv_hmax(top) : NAN;
}

#endif
