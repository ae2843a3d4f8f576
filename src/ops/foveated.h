/* foveated.h: which keys a query sees in foveated attention: each token near it, and further away
 * means over cells that grow with the distance. One softmax covers all of them.
 *
 * The queries of a block of FV_FOVEA_BLOCK x FV_FOVEA_BLOCK tokens see the same keys. Level 0 are
 * the tokens; level l are cells of 2^l x 2^l tokens from the top left corner of the grid on,
 * smaller at its right and bottom edges. A block sees the ring of level l between the regions l - 1
 * and l:
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
 * There are as few levels as possible such that the last one has at most FV_FOVEA_LAST cells on a
 * side. So the number of keys of a query grows with the logarithm of the number of tokens.
 */
#ifndef FOVEA_SRC_FOVEATED_H
#define FOVEA_SRC_FOVEATED_H

#include "ops/fovea_grid.h"
#include "ops/op.h"

/* The token grid and cells of a problem of FOVEATED or CELLS. */
fv_fovea fv_fovea_of(const fv_problem *p);
/* The number, over all levels, of the cell of level `level` that has token (y, x) of the grid. */
uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x);
/* Number of tokens of cell `cell`, numbered over all levels. */
uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell);
/* Number of keys of a query, as a mean over all queries. */
double fv_fovea_mean_keys(const fv_fovea *f);

#endif
