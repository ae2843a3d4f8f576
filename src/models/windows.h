/* windows.h: attention in windows of a grid: tokens are gathered window by window, and back.
 *
 * Windows are square. A grid that they do not divide is padded at the right and bottom with zeros
 * after the norm, which are keys like others; what they give is dropped.
 */
#ifndef FOVEA_SRC_MODELS_WINDOWS_H
#define FOVEA_SRC_MODELS_WINDOWS_H

#include "graph/emit.h"

/* The order of tokens when windows are stored one after the other. */
typedef struct fv_windows {
    fv_grid grid;         /* of the tokens */
    uint32_t side, shift; /* of a window; of the grid to the left and up, cyclically */
    uint32_t rows;        /* tokens of all windows */
    /* NULL: tokens are in that order as they are. */
    uint32_t *token;  /* of row r; FV_GATHER_NONE: it is beyond the grid */
    uint32_t *row;    /* of token i */
    uint32_t *region; /* of row r: tokens of different ones were apart before the shift; or NULL */
} fv_windows;

/* n rounded up to a multiple of `of`. */
static inline uint32_t fv_windows_whole(uint32_t n, uint32_t of)
{
    return n + (of - n % of) % of;
}

/* `g` with whole windows. */
fv_grid fv_windows_pad(const fv_grid *g, uint32_t side);
/* The windows of a grid. After a failure of the builder nothing may be done with them. */
fv_windows fv_windows_make(fv_builder *b, const fv_grid *g, uint32_t side, uint32_t shift);

/* The row of every place of the padded grid, to which what the shift brought comes back; NULL: they
 * are in that order, or the builder has failed. */
const uint32_t *fv_windows_places(fv_builder *b, const fv_windows *w);

/* The norm of x in windows: w->rows of them. */
fv_view fv_windows_enter(fv_builder *b, const fv_windows *w, const char *label, fv_view x,
                         const fv_layer *norm, float eps);
/* x + `projection` of `attended`, which is in windows. */
fv_view fv_windows_leave(fv_builder *b, const fv_windows *w, const char *label,
                         const fv_layer *projection, fv_view attended, fv_view x);

#endif
