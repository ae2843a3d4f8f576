/* tile.h: the register tile, a sum of outer products, with which softmax and linear attention
 * compute their products.
 *
 * A tile is FV_TILE_M broadcast values times FV_TILE_N vectors: enough sums to hide the latency of
 * multiply-adds, few enough to stay in registers. A file whose products have enough columns defines
 * FV_TILE_N as FV_TILE_WIDE before it includes this one. */
#ifndef FOVEA_PLATFORM_VEC_TILE_H
#define FOVEA_PLATFORM_VEC_TILE_H

#include "platform/cpu/vec/vec.h"

#include <stddef.h>
#include <string.h>

/* A value that is broadcast from memory takes as long to load as a vector. Three products per value
 * keep the multipliers busy, two do not; on AVX-512, three are 1.17 times as fast. With FV_FOURS
 * there are two, because the fours of values occupy the registers of the third. */
#define FV_TILE_WIDE (FV_FOURS ? 2 : 3)
#ifndef FV_TILE_N
#define FV_TILE_N 2
#endif
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

/* Copies n rows of `width` to packed rows of `widthp`, with zeros beyond `width`. So whole tiles
 * can be read, and rows whose stride was a power of two do not evict each other from the cache. */
FV_FN void fv_tile_pack(float *dst, size_t widthp, const float *src, size_t ld, size_t n,
                        size_t width)
{
    for (size_t i = 0; i < n; i++, dst += widthp, src += ld) {
        size_t j = 0;
        for (; j + FV_W <= width; j += FV_W)
            fv_store(dst + j, fv_load(src + j));
        for (; j < widthp; j += FV_W)
            fv_store_n(dst + j, fv_load_n(src + j, j < width ? (int)(width - j) : 0),
                       widthp - j < FV_W ? (int)(widthp - j) : FV_W);
    }
}

/* Multiplies one step of k whose values of `a` are in registers: value i of the step is number at +
 * i step of x. */
FV_FN void fv_tile_step(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_four *x, int at,
                        int step, const float *b)
{
    fv_v col[FV_TILE_N];
    FV_UNROLL
    for (int j = 0; j < vecs; j++)
        col[j] = fv_load(b + j * FV_W);
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        const int n = at + i * step;
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            acc[i][j] = fv_fma_four(x[n / 4], n % 4, col[j], acc[i][j]);
    }
}

/* Computes the steps of k for which `a` can be loaded four values at a time (ak or am is 1);
 * returns how many steps that was. */
FV_FN size_t fv_tile_add_fours(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const float *a, size_t am,
                               size_t ak, const float *b, size_t ldb, size_t depth)
{
    size_t k = 0;
    if (ak == 1) {
        for (; k + 4 <= depth; k += 4) {
            fv_four x[FV_TILE_M];
            FV_UNROLL
            for (int i = 0; i < FV_TILE_M; i++)
                x[i] = fv_load_four(a + i * am + k);
            FV_UNROLL
            for (int s = 0; s < 4; s++)
                fv_tile_step(acc, vecs, x, s, 4, b + (k + s) * ldb);
        }
    } else if (am == 1) {
        for (; k < depth; k++) {
            fv_four x[FV_TILE_M / 4];
            FV_UNROLL
            for (int i = 0; i < FV_TILE_M / 4; i++)
                x[i] = fv_load_four(a + k * ak + 4 * i);
            fv_tile_step(acc, vecs, x, 0, 1, b + k * ldb);
        }
    }
    return k;
}

/* acc[i][j] += the sum over k of a[i am + k ak] b[k ldb + j], for `vecs` vectors of columns. k
 * ascends with one sum per element, so that an element is the same in whatever tile it is
 * computed. */
FV_FN void fv_tile_add_cols(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const float *a, size_t am,
                            size_t ak, const float *b, size_t ldb, size_t depth)
{
    size_t k = FV_FOURS ? fv_tile_add_fours(acc, vecs, a, am, ak, b, ldb, depth) : 0;
    for (; k < depth; k++) {
        fv_v col[FV_TILE_N];
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            col[j] = fv_load(b + k * ldb + j * FV_W);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            fv_v row = fv_set(a[i * am + k * ak]);
            FV_UNROLL
            for (int j = 0; j < vecs; j++)
                acc[i][j] = fv_fma(row, col[j], acc[i][j]);
        }
    }
}

FV_FN void fv_tile_add(fv_v acc[FV_TILE_M][FV_TILE_N], const float *a, size_t am, size_t ak,
                       const float *b, size_t ldb, size_t depth)
{
    fv_tile_add_cols(acc, FV_TILE_N, a, am, ak, b, ldb, depth);
}

/* Computes the sums of fv_tile_add_cols() from zero. */
FV_FN void fv_tile_cols(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const float *a, size_t am,
                        size_t ak, const float *b, size_t ldb, size_t depth)
{
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            acc[i][j] = fv_set(0.f);
    }
    fv_tile_add_cols(acc, vecs, a, am, ak, b, ldb, depth);
}

FV_FN void fv_tile(fv_v acc[FV_TILE_M][FV_TILE_N], const float *a, size_t am, size_t ak,
                   const float *b, size_t ldb, size_t depth)
{
    fv_tile_cols(acc, FV_TILE_N, a, am, ak, b, ldb, depth);
}

/* Does what fv_tile_add_cols() does for a lower triangular a: row i of the tile ends at column
 * depth + i, and elements beyond it are neither read nor multiplied. */
FV_FN void fv_tile_add_lower(fv_v acc[FV_TILE_M][FV_TILE_N], const float *a, size_t lda,
                             const float *b, size_t ldb, size_t depth)
{
    fv_tile_add(acc, a, lda, 1, b, ldb, depth);
    FV_UNROLL
    for (int k = 0; k < FV_TILE_M; k++) {
        FV_UNROLL
        for (int j = 0; j < FV_TILE_N; j++) {
            const fv_v col = fv_load(b + (depth + k) * ldb + j * FV_W);
            FV_UNROLL
            for (int i = k; i < FV_TILE_M; i++)
                acc[i][j] = fv_fma(fv_set(a[i * lda + depth + k]), col, acc[i][j]);
        }
    }
}

FV_FN void fv_tile_store(float *out, size_t ld, fv_v acc[FV_TILE_M][FV_TILE_N])
{
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        FV_UNROLL
        for (int j = 0; j < FV_TILE_N; j++)
            fv_store(out + i * ld + j * FV_W, acc[i][j]);
    }
}

#endif
