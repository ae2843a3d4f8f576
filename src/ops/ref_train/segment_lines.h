/* segment_lines.h: how the cells of a grid are stretched over the pixels of a mask: bilinearly, as
 * torch does with align_corners False and `fovea run` does with --labels.
 */
#ifndef FOVEA_SRC_ADAPT_SEGMENT_LINES_H
#define FOVEA_SRC_ADAPT_SEGMENT_LINES_H

#include <stdint.h>

#define FV_SEGMENT_IGNORED 255 /* a pixel of the mask that does not count */

/* A pixel lies between two cells, or on the last one, `part` of the way to the second. */
typedef struct fv_between {
    uint32_t first, second;
    float part;
} fv_between;

/* The place of pixel i of `pixels` between `cells` cells. */
static inline fv_between fv_segment_between(uint32_t i, uint32_t cells, uint32_t pixels)
{
    const double at = (i + 0.5) * cells / pixels - 0.5, inside = at > 0 ? at : 0;
    const uint32_t first = (uint32_t)inside < cells - 1 ? (uint32_t)inside : cells - 1;
    return (fv_between){first, first + 1 < cells ? first + 1 : first, (float)(inside - first)};
}

/* The first pixel whose centre is not before the start of cell i; pixels up to that of cell i + 1
 * belong to cell i. */
static inline uint32_t fv_segment_start(uint32_t i, uint32_t cells, uint32_t pixels)
{
    return (uint32_t)((2 * (uint64_t)i * pixels + cells - 1) / (2 * (uint64_t)cells));
}

/* Pixels [*begin, *end) may lie between cell i and its neighbours; the others do not. */
static inline void fv_segment_reach(uint32_t *begin, uint32_t *end, uint32_t i, uint32_t cells,
                                    uint32_t pixels)
{
    *begin = i ? fv_segment_start(i - 1, cells, pixels) : 0;
    *end = i + 2 < cells ? fv_segment_start(i + 2, cells, pixels) : pixels;
}

#endif
