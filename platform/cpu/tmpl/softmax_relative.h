/* softmax_relative.h: packs the relative positions of a panel of SOFTMAX's queries, transposed like
 * the queries: one row of lanes for each row and column of the keys' grid. */
#ifndef FOVEA_PLATFORM_SOFTMAX_RELATIVE_H
#define FOVEA_PLATFORM_SOFTMAX_RELATIVE_H

#include <string.h>

#include "ops/contracts/softmax_attention.h"
#include "ops/kernel.h"
#include "platform/cpu/vec/tile.h"

/* Packs the relative positions of queries [first, first + rows) of a call, times `unit`, into a
 * panel of `queries` queries. n is the number of rows plus columns of the grid. */
static void pack_relative(float *to, size_t queries, size_t n, const fv_args *a, const fv_call *c,
                          size_t first, size_t rows, size_t number, float unit)
{
    const size_t ld = a->ld[FV_SOFTMAX_REL_POS];
    const float *from = (const float *)c->p[FV_SOFTMAX_REL_POS] + first * ld + number * n;
    memset(to, 0, queries * n * sizeof *to);
    for (size_t r = 0; r < rows; r++, from += ld) {
        const size_t lane = r % FV_TILE_COLS;
        float *column = to + (r - lane) * n + lane;
        for (size_t i = 0; i < n; i++)
            column[i * FV_TILE_COLS] = from[i] * unit;
    }
}

#endif
