/* foveated.h: the keys that a query attends to in foveated attention: each token near it and,
 * further away, means over cells that grow with the distance. One softmax covers all of them.
 *
 * All queries of a block of FV_FOVEA_BLOCK x FV_FOVEA_BLOCK tokens attend to the same keys. Level 0
 * consists of the tokens, and level l of cells of 2^l x 2^l tokens, counted from the top left
 * corner of the grid, which are smaller at the right and bottom edges. A block attends to the ring
 * of level l between the regions l - 1 and l:
 *
 *   region l   the block and margin (2^(l+1) - 1) tokens on every side of it, enlarged to whole
 *              cells of level l + 1, and cut at the edges of the grid; for the last level, the
 *              whole grid
 *
 *     +-----------------------+
 *     |   :   :   :   :   :   |      a cell of n tokens counts as n keys: its score is that of the
 *     |...+---------------+...|      mean key plus log n, its value the mean value
 *     |   | : : : : : : : |   |
 *     |   |.+-----------+.|   |      prefix tokens are keys of every query; as queries they
 *     |...|.|  margin   |.|...|      attend to each token
 *     |   | |  +-----+  | |   |
 *     |   |.|  |block|  |.|   |
 *
 * The number of levels is the smallest for which the last level has at most FV_FOVEA_LAST cells on
 * a side. The number of keys of a query therefore grows with the logarithm of the number of tokens.
 */
#ifndef FOVEA_SRC_FOVEATED_H
#define FOVEA_SRC_FOVEATED_H

#include "ops/fovea_grid.h"
#include "ops/op.h"

/* Returns the token grid and cells of a problem of FOVEATED or CELLS. */
fv_fovea fv_fovea_of(const fv_problem *p);
/* Returns the number, over all levels, of the cell of level `level` that contains token (y, x) of
 * the grid. */
uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x);
/* Returns the number of tokens of cell `cell`, numbered over all levels. */
uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell);
/* Returns the number of keys of a query, as a mean over all queries. */
double fv_fovea_mean_keys(const fv_fovea *f);

#endif
