/* oracle_fovea.h: what a query of foveated attention sees, counted by hand: every cell of every
 * level is looked at, and taken if it is between the two regions. */
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

/* Of a case of CELLS, FOVEATED or FOVEATED_GRAD. */
fovea_grid fovea_grid_of(const check_case *c);
/* Gives a case a grid; returns its tokens. */
uint32_t fovea_grid_set(check_case *c, uint32_t prefix, uint32_t width, uint32_t height);
/* Cell number `cell` of all levels; its level, 0: there are no more. */
uint32_t fovea_grid_cell(const fovea_grid *g, uint32_t cell, fovea_area *out);
uint32_t fovea_grid_cells(const fovea_grid *g);
double fovea_area_tokens(const fovea_area *a);

/* A key: where its value is, where the key itself, and the tokens that it stands for. */
typedef struct fovea_key {
    check_spot k, v;
    double tokens;
} fovea_key;

/* The keys of a query, at most as many as tokens and cells; returns how many. */
uint32_t fovea_grid_keys(const fovea_grid *g, uint32_t row, fovea_key *out);

#endif
