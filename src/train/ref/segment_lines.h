/* segment_lines.h: stretches the cells of a grid over the pixels of a mask: bilinearly, as torch
 * does with align_corners False and `fovea run` does with --labels. */
#ifndef FOVEA_SRC_ADAPT_SEGMENT_LINES_H
#define FOVEA_SRC_ADAPT_SEGMENT_LINES_H

#include <stdint.h>

#include "ops/op.h"
#include "train/ref/training.h"

#define FV_SEGMENT_IGNORED 255 /* class of a pixel that is ignored */

/* The two cells next to a pixel. The pixel is at the fraction `part` of the way from the first to
 * the second. */
typedef struct fv_segment_place {
    uint32_t first, second;
    float part;
} fv_segment_place;

/* Returns the place of pixel i of `pixels` pixels between `cells` cells. */
static inline fv_segment_place fv_segment_between(uint32_t i, uint32_t cells, uint32_t pixels)
{
    const double at = (i + 0.5) * cells / pixels - 0.5, inside = at > 0 ? at : 0;
    const uint32_t first = (uint32_t)inside < cells - 1 ? (uint32_t)inside : cells - 1;
    return (fv_segment_place){first, first + 1 < cells ? first + 1 : first,
                              (float)(inside - first)};
}

/* Returns the first pixel whose centre is not before the start of cell i. Cell i owns the pixels
 * from this one up to the first pixel of cell i + 1. */
static inline uint32_t fv_segment_start(uint32_t i, uint32_t cells, uint32_t pixels)
{
    return (uint32_t)((2 * (uint64_t)i * pixels + cells - 1) / (2 * (uint64_t)cells));
}

/* Sets *begin and *end such that only pixels [*begin, *end) can be between cell i and its
 * neighbours. */
static inline void fv_segment_reach(uint32_t *begin, uint32_t *end, uint32_t i, uint32_t cells,
                                    uint32_t pixels)
{
    *begin = i ? fv_segment_start(i - 1, cells, pixels) : 0;
    *end = i + 2 < cells ? fv_segment_start(i + 2, cells, pixels) : pixels;
}

/* ---- both ways, of an operation with dimensions `dim` ---- */

/* Pixels [left, right) of lines [top, bottom). */
typedef struct fv_segment_area {
    uint32_t top, bottom, left, right;
} fv_segment_area;

/* Returns the pixels whose centres are in the cell of a token. */
static inline fv_segment_area fv_segment_own(const uint32_t *dim, uint32_t token)
{
    const uint32_t across = dim[FV_SEGMENT_GRID], down = dim[FV_DIM_ROWS] / across;
    const uint32_t v = token / across, u = token % across;
    const uint32_t width = dim[FV_SEGMENT_WIDTH], height = dim[FV_SEGMENT_HEIGHT];
    return (fv_segment_area){
        fv_segment_start(v, down, height), fv_segment_start(v + 1, down, height),
        fv_segment_start(u, across, width), fv_segment_start(u + 1, across, width)};
}

/* Returns an area that contains all pixels to which a token contributes. */
static inline fv_segment_area fv_segment_seen(const uint32_t *dim, uint32_t token)
{
    const uint32_t across = dim[FV_SEGMENT_GRID], down = dim[FV_DIM_ROWS] / across;
    fv_segment_area a;
    fv_segment_reach(&a.top, &a.bottom, token / across, down, dim[FV_SEGMENT_HEIGHT]);
    fv_segment_reach(&a.left, &a.right, token % across, across, dim[FV_SEGMENT_WIDTH]);
    return a;
}

/* The tokens around a pixel, row by row, and the share of each. */
typedef struct fv_segment_pixel {
    uint32_t token[4];
    double share[4];
} fv_segment_pixel;

static inline fv_segment_pixel fv_segment_pixel_at(const uint32_t *dim, uint32_t y, uint32_t x)
{
    const uint32_t across = dim[FV_SEGMENT_GRID], down = dim[FV_DIM_ROWS] / across;
    const fv_segment_place v = fv_segment_between(y, down, dim[FV_SEGMENT_HEIGHT]);
    const fv_segment_place u = fv_segment_between(x, across, dim[FV_SEGMENT_WIDTH]);
    fv_segment_pixel p;
    for (int i = 0; i < 4; i++) {
        p.token[i] = (i & 2 ? v.second : v.first) * across + (i & 1 ? u.second : u.first);
        p.share[i] = (double)(i & 2 ? v.part : 1 - v.part) * (double)(i & 1 ? u.part : 1 - u.part);
    }
    return p;
}

/* Returns the share of `token`, which occurs twice in the list at an edge of the grid. */
static inline double fv_segment_share(const fv_segment_pixel *p, uint32_t token)
{
    double share = 0;
    for (int i = 0; i < 4; i++)
        share += p->token[i] == token ? p->share[i] : 0;
    return share;
}

#endif
