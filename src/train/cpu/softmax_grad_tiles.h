/* softmax_grad_tiles.h: building blocks of SOFTMAX_GRAD and FOVEATED_GRAD, in vec.h's vector
 * functions. Blocks of queries, which are spread across the lanes, are multiplied by tiles of
 * keys. */
#ifndef FOVEA_PLATFORM_SOFTMAX_GRAD_TILES_H
#define FOVEA_PLATFORM_SOFTMAX_GRAD_TILES_H

#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/tile.h"
#include "train/cpu/train_cpu_kernels.h"

#include <stdbool.h>
#include <string.h>

enum { KEYS = 64, QUERIES = 64 }; /* keys of a tile and queries of a block: whole register tiles */

/* Transposes and packs rows: row r becomes lane r % FV_TILE_COLS of group r / FV_TILE_COLS. A group
 * is [n][FV_TILE_COLS]. */
FV_FN void pack_lanes(float *out, const float *x, size_t ld, size_t rows, size_t n, float scale)
{
    for (size_t r = 0; r < rows; r += FV_TILE_COLS) {
        for (size_t i = 0; i < n; i++, out += FV_TILE_COLS) {
            for (size_t lane = 0; lane < FV_TILE_COLS; lane++)
                out[lane] = x[(r + lane) * ld + i] * scale;
        }
    }
}

/* Computes out[j][i] = a_j.b_i for n rows of a and `queries` lanes of b, both in whole register
 * tiles. */
FV_FN void scores(float *out, const float *a, size_t lda, const float *lanes, size_t depth,
                  size_t n, size_t queries)
{
    for (size_t i = 0; i < queries; i += FV_TILE_COLS, lanes += FV_TILE_COLS * depth) {
        for (size_t j = 0; j < n; j += FV_TILE_M) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, a + j * lda, lda, 1, lanes, FV_TILE_COLS, depth);
            fv_tile_store(out + j * QUERIES + i, QUERIES, acc);
        }
    }
}

#endif
