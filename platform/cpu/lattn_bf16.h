/* lattn_bf16.h: products of linear attention in bfloat16 (prob.acc is BF16), per ISA level.
 *
 * The templates of the mechanisms compute features in float32 on every level. Features, values and
 * the state are then rounded in place before they are multiplied, and products are returned as
 * tiles of floats. So a mechanism is compiled once for all levels with the same vector functions.
 */
#ifndef FOVEA_PLATFORM_LATTN_BF16_H
#define FOVEA_PLATFORM_LATTN_BF16_H

#include <stddef.h>

typedef struct fv_lattn_bf16 {
    /* Rounds n rows of `width` floats at x in place, for products along their rows or along their
     * columns. `width` is a multiple of the vector's. For columns, a row of zeros makes an odd n
     * even, and `sum`, unless NULL, gets the sum of each column after rounding. */
    void (*round_rows)(float *x, size_t n, size_t width);
    void (*round_columns)(float *x, float *sum, size_t n, size_t width);

    /* Computes a tile of the product of a and b: FV_TILE_M rows by FV_TILE_COLS columns, from
     * column j of b on, over `depth` steps, an even number. The tile's rows are rows of a, or
     * columns of a, from i on. a has lda floats per row and was rounded by rows or by columns; b
     * has ldb floats per row and was rounded by columns. */
    void (*multiply_rows)(float *tile, const float *a, size_t lda, size_t i, const float *b,
                          size_t ldb, size_t j, size_t depth);
    void (*multiply_columns)(float *tile, const float *a, size_t lda, size_t i, const float *b,
                             size_t ldb, size_t j, size_t depth);
} fv_lattn_bf16;

extern const fv_lattn_bf16 fv_lattn_bf16_c, fv_lattn_bf16_avx2, fv_lattn_bf16_avx512,
    fv_lattn_bf16_avx512_bf16, fv_lattn_bf16_neon, fv_lattn_bf16_neon_dot, fv_lattn_bf16_rvv;

#endif
