/* oracle_fovea.h: the keys that a query of foveated attention sees, by brute force: every cell of
 * every level is tested, and is visible if it is between the regions of its level and the level
 * below. */
#ifndef FOVEA_TESTS_ORACLE_FOVEA_H
#define FOVEA_TESTS_ORACLE_FOVEA_H

#include "tests/kernels/check_softmax.h"

/* Levels are added until the last has at most ten cells on a side. */
typedef struct fovea_grid {
    uint32_t prefix, width, height, margin, levels;
} fovea_grid;

typedef struct fovea_area {
    int64_t y0, y1, x0, x1;
} fovea_area;

/* Returns the grid of a case of CELLS, FOVEATED or FOVEATED_GRAD. */
fovea_grid fovea_grid_of(const check_case *c);
/* Gives a case a grid; returns the number of tokens. */
uint32_t fovea_grid_set(check_case *c, uint32_t prefix, uint32_t width, uint32_t height);
/* Sets the area of cell number `cell`, counted over all levels. Returns the cell's level, or 0 if
 * there are no more cells. */
uint32_t fovea_grid_cell(const fovea_grid *g, uint32_t cell, fovea_area *out);
uint32_t fovea_grid_cells(const fovea_grid *g);
double fovea_area_tokens(const fovea_area *a);

/* A key: where its value is, where the key is, and the number of tokens that it represents. */
typedef struct fovea_key {
    check_spot k, v;
    double tokens;
} fovea_key;

/* Stores the keys that a query sees, at most all tokens and cells; returns their number. */
uint32_t fovea_grid_keys(const fovea_grid *g, uint32_t row, fovea_key *out);

#endif
