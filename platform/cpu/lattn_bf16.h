/* lattn_bf16.h: the products of linear attention where prob.acc is BF16, of one ISA level.
 *
 * The templates of the mechanisms map rows to features in float32, whatever the level; what is
 * multiplied then, features, values and the state, is rounded in place, and tiles of the products
 * come back as floats. So a mechanism is compiled once for all levels with the same vectors. */
#ifndef FOVEA_PLATFORM_LATTN_BF16_H
#define FOVEA_PLATFORM_LATTN_BF16_H

#include <stddef.h>

typedef struct fv_lattn_bf16 {
    /* Rounds n rows of `width` floats at x, a multiple of the vector's, to factors whose rows, or
     * whose columns, are multiplied. By columns n is filled up to an even number with a row of
     * zeros, and `sum`, unless NULL, gets the sum of each column after rounding. */
    void (*round_rows)(float *x, size_t n, size_t width);
    void (*round_columns)(float *x, float *sum, size_t n, size_t width);

    /* The tile of a b that begins in column j of b, FV_TILE_M rows of FV_TILE_COLS sums over
     * `depth` steps, an even number: rows from i on of a, or its columns. a has lda floats in a
     * row and is rounded by rows, or by columns; b has ldb and is rounded by columns. */
    void (*multiply_rows)(float *tile, const float *a, size_t lda, size_t i, const float *b,
                          size_t ldb, size_t j, size_t depth);
    void (*multiply_columns)(float *tile, const float *a, size_t lda, size_t i, const float *b,
                             size_t ldb, size_t j, size_t depth);
} fv_lattn_bf16;

extern const fv_lattn_bf16 fv_lattn_bf16_c, fv_lattn_bf16_avx2, fv_lattn_bf16_avx512,
    fv_lattn_bf16_avx512_bf16, fv_lattn_bf16_neon, fv_lattn_bf16_neon_dot, fv_lattn_bf16_rvv;

#endif
