/* foveated.h: which keys a query sees in foveated attention: tokens near it one by one, those
 * further away as means over cells that grow with the distance, all under one softmax.
 *
 * Queries of the grid go by blocks of FV_FOVEA_BLOCK x FV_FOVEA_BLOCK tokens. Level 0 are the
 * tokens, level l cells of 2^l x 2^l of them, counted from the grid's corner; those at its right
 * and bottom edge have fewer. A block sees of level l the ring between the regions l - 1 and l:
 *
 *   region l   the block and margin (2^(l+1) - 1) tokens on every side of it, grown to whole cells
 *              of level l + 1, as far as the grid goes; of the last level all of the grid
 *
 *     +-----------------------+
 *     |   :   :   :   :   :   |      a cell of n tokens counts as n keys: its score is that of the
 *     |...+---------------+...|      mean key plus log n, its value the mean value
 *     |   | : : : : : : : |   |
 *     |   |.+-----------+.|   |      prefix tokens are keys of every query; as queries they see
 *     |...|.|  margin   |.|...|      all tokens one by one
 *     |   | |  +-----+  | |   |
 *     |   |.|  |block|  |.|   |
 *
 * The number of levels is the least with which the last one has at most FV_FOVEA_LAST cells on a
 * side: the number of keys of a query grows with the logarithm of the number of tokens.
 */
#ifndef FOVEA_SRC_FOVEATED_H
#define FOVEA_SRC_FOVEATED_H

#include "ops/fovea_grid.h"
#include "ops/op.h"

/* Of a problem of FOVEATED or CELLS. */
fv_fovea fv_fovea_of(const fv_problem *p);
/* The cell of all levels that is of level `level` and has token (y, x) of the grid. */
uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x);
/* Tokens of cell `cell` of all levels. */
uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell);
/* Keys of all queries, over their number. */
double fv_fovea_mean_keys(const fv_fovea *f);

#endif
