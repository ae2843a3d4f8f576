/* tile.h: the register tile: a sum of outer products, which softmax and linear attention consist
 * of.
 *
 * FV_TILE_M broadcast values times FV_TILE_N vectors; enough sums to hide the latency of the
 * multiply-add, few enough to stay in registers. */
#ifndef FOVEA_PLATFORM_VEC_TILE_H
#define FOVEA_PLATFORM_VEC_TILE_H

#include "vec.h"

#include <stddef.h>
#include <string.h>

#define FV_TILE_N 2
#if FV_REGS >= 32
#define FV_TILE_M 8
#else
#define FV_TILE_M 4
#endif
#define FV_TILE_COLS (FV_TILE_N * FV_W)

FV_FN size_t fv_tile_round(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Copies n rows of `width` to packed rows of `widthp`, zeros beyond: whole tiles can be read, and
 * rows that lie a power of two apart do not drive each other out of the cache. */
FV_FN void fv_tile_pack(float *dst, size_t widthp, const float *src, size_t ld, size_t n,
                        size_t width)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(dst + i * widthp, src + i * ld, width * sizeof *dst);
        memset(dst + i * widthp + width, 0, (widthp - width) * sizeof *dst);
    }
}

/* acc[i][j] = sum over k of a[i am + k ak] b[k ldb + j], k ascending with one sum per element: an
 * element comes out the same whatever tile it is computed in. */
FV_FN void fv_tile(fv_v acc[FV_TILE_M][FV_TILE_N], const float *a, size_t am, size_t ak,
                   const float *b, size_t ldb, size_t depth)
{
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        FV_UNROLL
        for (int j = 0; j < FV_TILE_N; j++)
            acc[i][j] = fv_set(0.f);
    }
    for (size_t k = 0; k < depth; k++) {
        fv_v col[FV_TILE_N];
        FV_UNROLL
        for (int j = 0; j < FV_TILE_N; j++)
            col[j] = fv_load(b + k * ldb + j * FV_W);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            fv_v row = fv_set(a[i * am + k * ak]);
            FV_UNROLL
            for (int j = 0; j < FV_TILE_N; j++)
                acc[i][j] = fv_fma(row, col[j], acc[i][j]);
        }
    }
}

#endif
