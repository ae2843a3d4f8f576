/* windows.h: for attention in windows of a grid: gathers tokens window by window, and back.
 *
 * Windows are square. If they do not divide the grid, it is padded at the right and bottom with
 * zeros after the norm. The zeros are keys like others; their results are dropped.
 */
#ifndef FOVEA_SRC_MODELS_WINDOWS_H
#define FOVEA_SRC_MODELS_WINDOWS_H

#include "graph/emit.h"

/* The order of tokens when windows are stored one after the other. */
typedef struct fv_windows {
    fv_grid grid;         /* of the tokens */
    uint32_t side, shift; /* side of a window; cyclic shift of the grid to the left and up */
    uint32_t rows;        /* tokens of all windows */
    /* NULL: the tokens of the grid are in that order already. */
    uint32_t *token;  /* token of row r; FV_GATHER_NONE: the row is padding */
    uint32_t *row;    /* of token i */
    uint32_t *region; /* region of row r: tokens of different regions were not neighbours before the
                         shift; or NULL */
} fv_windows;

/* n rounded up to a multiple of `of`. */
static inline uint32_t fv_windows_whole(uint32_t n, uint32_t of)
{
    return n + (of - n % of) % of;
}

/* `g` with whole windows. */
fv_grid fv_windows_pad(const fv_grid *g, uint32_t side);
/* Makes the windows of a grid. They must not be used if the builder has failed. */
fv_windows fv_windows_make(fv_builder *b, const fv_grid *g, uint32_t side, uint32_t shift);

/* The row of every place of the padded grid, with the shift undone. NULL: rows are in that order
 * already, or the builder has failed. */
const uint32_t *fv_windows_places(fv_builder *b, const fv_windows *w);

/* The norm of x, as w->rows rows in the order of windows. */
fv_view fv_windows_enter(fv_builder *b, const fv_windows *w, const char *label, fv_view x,
                         const fv_layer *norm, float eps);
/* x + `projection` of `attended`, which is in the order of windows; the result is not. */
fv_view fv_windows_leave(fv_builder *b, const fv_windows *w, const char *label,
                         const fv_layer *projection, fv_view attended, fv_view x);

#endif
