/* fovea_grid.h: the cells, regions and rings of foveated.h, for C and for GPU kernels. It uses only
 * what OpenCL C, CUDA C++ and C have in common. */
#ifndef FOVEA_SRC_FOVEA_GRID_H
#define FOVEA_SRC_FOVEA_GRID_H

#include <math.h>

#include "base/num.h"

enum {
    FV_FOVEA_BLOCK = 8,
    FV_FOVEA_LAST = 10,
    FV_FOVEA_LEVELS = 12 /* maximum number of levels above the tokens */
};

typedef struct fv_fovea {
    uint32_t prefix, width, height; /* the token grid, as in fv_grid */
    uint32_t levels, margin;
} fv_fovea;

/* Returns the number of levels above the tokens of a grid. */
static inline uint32_t fv_fovea_levels(uint32_t width, uint32_t height)
{
    const uint32_t side = width > height ? width : height;
    uint32_t levels = 1;
    while (levels < FV_FOVEA_LEVELS && fv_ceil_div(side, 1u << levels) > FV_FOVEA_LAST)
        levels++;
    return levels;
}

/* Return the number of cells of a level: in a row, and in total. */
static inline uint32_t fv_fovea_columns(const fv_fovea *f, uint32_t level)
{
    return fv_ceil_div(f->width, 1u << level);
}

static inline uint32_t fv_fovea_cells(const fv_fovea *f, uint32_t level)
{
    return fv_fovea_columns(f, level) * fv_ceil_div(f->height, 1u << level);
}

/* Returns the number of cells of the levels from 1 on that precede `level`; for level `levels` + 1,
 * the number of all cells. The cells of all levels are numbered in one sequence, each level row by
 * row. */
static inline uint32_t fv_fovea_first(const fv_fovea *f, uint32_t level)
{
    uint32_t sum = 0;
    for (uint32_t l = 1; l < level; l++)
        sum += fv_fovea_cells(f, l);
    return sum;
}

/* An area of tokens, or of cells of a level: rows y0 to y1 - 1, columns x0 to x1 - 1. */
typedef struct fv_fovea_area {
    uint32_t y0, y1, x0, x1;
} fv_fovea_area;

static inline uint32_t fv_fovea_size(fv_fovea_area a)
{
    return (a.y1 - a.y0) * (a.x1 - a.x0);
}

/* Returns the tokens of cell (y, x) of a level. */
static inline fv_fovea_area fv_fovea_cell_at(const fv_fovea *f, uint32_t level, uint32_t y,
                                             uint32_t x)
{
    const fv_fovea_area a = {y << level, fv_min_u32((y + 1) << level, f->height), x << level,
                             fv_min_u32((x + 1) << level, f->width)};
    return a;
}

/* Returns the tokens of cell `cell`, numbered over all levels. */
static inline fv_fovea_area fv_fovea_cell(const fv_fovea *f, uint32_t cell)
{
    uint32_t level = 1;
    for (; cell >= fv_fovea_cells(f, level); level++)
        cell -= fv_fovea_cells(f, level);
    const uint32_t columns = fv_fovea_columns(f, level);
    return fv_fovea_cell_at(f, level, cell / columns, cell % columns);
}

/* Returns region `level` of the block at token (y, x), in tokens. */
static inline fv_fovea_area fv_fovea_region(const fv_fovea *f, uint32_t level, uint32_t y,
                                            uint32_t x)
{
    const uint32_t unit = 2u << level, margin = f->margin * (unit - 1);
    const uint32_t top = y > margin ? y - margin : 0, left = x > margin ? x - margin : 0;
    const uint32_t bottom = fv_round_up(y + FV_FOVEA_BLOCK + margin, unit);
    const uint32_t right = fv_round_up(x + FV_FOVEA_BLOCK + margin, unit);
    fv_fovea_area a = {0, f->height, 0, f->width};
    if (level >= f->levels)
        return a;
    a.y0 = top / unit * unit;
    a.y1 = fv_min_u32(bottom, f->height);
    a.x0 = left / unit * unit;
    a.x1 = fv_min_u32(right, f->width);
    return a;
}

/* Converts an area of tokens to cells of a level; cells that it covers in part are included. */
static inline fv_fovea_area fv_fovea_in_cells(fv_fovea_area a, uint32_t level)
{
    const uint32_t side = 1u << level;
    const fv_fovea_area cells = {a.y0 / side, fv_ceil_div(a.y1, side), a.x0 / side,
                                 fv_ceil_div(a.x1, side)};
    return cells;
}

/* The cells of a level that a block attends to: `area` without `hole`, which is inside it. */
typedef struct fv_fovea_ring {
    fv_fovea_area area, hole;
} fv_fovea_ring;

static inline fv_fovea_ring fv_fovea_ring_of(const fv_fovea *f, uint32_t level, uint32_t y,
                                             uint32_t x)
{
    fv_fovea_ring r;
    r.area = fv_fovea_in_cells(fv_fovea_region(f, level, y, x), level);
    r.hole = r.area;
    if (level > 0) {
        r.hole = fv_fovea_in_cells(fv_fovea_region(f, level - 1, y, x), level);
    } else {
        r.hole.y1 = r.area.y0;
        r.hole.x1 = r.area.x0;
    }
    return r;
}

/* Returns the number of keys of the block at token (y, x), prefix included. */
static inline uint32_t fv_fovea_keys(const fv_fovea *f, uint32_t y, uint32_t x)
{
    uint32_t keys = f->prefix;
    for (uint32_t l = 0; l <= f->levels; l++) {
        const fv_fovea_ring r = fv_fovea_ring_of(f, l, y, x);
        keys += fv_fovea_size(r.area) - fv_fovea_size(r.hole);
    }
    return keys;
}

/* Returns log2 of the number of tokens of cell (y, x) of a level. */
static inline float fv_fovea_bias(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x)
{
    const uint32_t tokens = fv_fovea_size(fv_fovea_cell_at(f, level, y, x));
    return tokens == 1u << 2 * level ? (float)(2 * level) : log2f((float)tokens);
}

/* ---- keys in the order of summation ---- */

/* `count` consecutive keys. On level 0 they are tokens from `row` on, prefix included. On other
 * levels they are cells from `row` on, numbered over all levels; the first is at (y, x) of its
 * level. */
typedef struct fv_fovea_run {
    uint32_t level, row, count, y, x;
} fv_fovea_run;

/* An iterator over the keys of the block at token (y, x), or of the prefix. */
typedef struct fv_fovea_walk {
    const fv_fovea *f;
    uint32_t block_y, block_x;
    uint32_t first_tokens;    /* number of tokens, from 0 on, that are visited before all other
                                 keys */
    uint32_t level, y, right; /* next row of cells, and whether left (0) or right (1) of the hole */
    uint32_t row, columns;    /* number of the level's first cell; number of cells in one of its
                                 rows */
    fv_fovea_ring ring;
} fv_fovea_walk;

static inline void fv_fovea_enter(fv_fovea_walk *w, uint32_t level)
{
    w->level = level;
    w->right = 0;
    if (level > w->f->levels)
        return;
    w->ring = fv_fovea_ring_of(w->f, level, w->block_y, w->block_x);
    w->row = level > 0 ? fv_fovea_first(w->f, level) : w->f->prefix;
    w->columns = fv_fovea_columns(w->f, level);
    w->y = w->ring.area.y0;
}

static inline void fv_fovea_begin(fv_fovea_walk *w, const fv_fovea *f, uint32_t y, uint32_t x)
{
    w->f = f;
    w->block_y = y;
    w->block_x = x;
    w->first_tokens = f->prefix;
    fv_fovea_enter(w, 0);
}

static inline void fv_fovea_begin_prefix(fv_fovea_walk *w, const fv_fovea *f)
{
    const fv_fovea_walk empty = {0};
    *w = empty;
    w->f = f;
    w->first_tokens = f->prefix + f->width * f->height;
    fv_fovea_enter(w, f->levels + 1);
}

/* Returns the next cells of a row that are outside the hole. */
static inline fv_fovea_run fv_fovea_part(fv_fovea_walk *w)
{
    const fv_fovea_area area = w->ring.area, hole = w->ring.hole;
    const bool holed = w->y >= hole.y0 && w->y < hole.y1, left = holed && !w->right;
    const uint32_t from = w->right ? hole.x1 : area.x0, to = left ? hole.x0 : area.x1;
    const fv_fovea_run run = {w->level, w->row + w->y * w->columns + from, to - from, w->y, from};
    w->right = left;
    w->y += !left;
    return run;
}

/* Returns the next run of keys; its count is 0 at the end. */
static inline fv_fovea_run fv_fovea_next(fv_fovea_walk *w)
{
    fv_fovea_run run = {0, 0, w->first_tokens, 0, 0};
    w->first_tokens = 0;
    while (run.count == 0 && w->level <= w->f->levels) {
        if (w->y == w->ring.area.y1)
            fv_fovea_enter(w, w->level + 1);
        else
            run = fv_fovea_part(w);
    }
    return run;
}

#endif
