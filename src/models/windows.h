/* windows.h: gathers the tokens of a grid window by window for attention in windows, and scatters
 * them back.
 *
 * Windows are square. If they do not divide the grid, the grid is padded at the right and bottom
 * with zeros after the norm. The zeros are keys like others. Their results are dropped. */
#ifndef FOVEA_SRC_MODELS_WINDOWS_H
#define FOVEA_SRC_MODELS_WINDOWS_H

#include "graph/emit.h"

/* A cyclic shift of the grid to the left and upwards, in tokens. */
typedef struct fv_window_shift {
    uint32_t x, y;
    bool first; /* the grid is shifted before it is padded, not after it */
} fv_window_shift;

/* The order of tokens when windows are stored one after the other. */
typedef struct fv_windows {
    fv_grid grid;  /* grid of the tokens */
    uint32_t side; /* side of a window, in tokens */
    fv_window_shift shift;
    uint32_t rows; /* number of tokens in all windows */
    /* NULL if the grid's tokens are in that order already. */
    uint32_t *token; /* token of row r; FV_GATHER_NONE if the row is padding */
    uint32_t *row;   /* row of token i */
    /* region of row r: tokens of different regions were not adjacent before the shift; or NULL */
    uint32_t *region;
} fv_windows;

/* Returns n rounded up to a multiple of `of`. */
static inline uint32_t fv_windows_whole(uint32_t n, uint32_t of)
{
    return n + (of - n % of) % of;
}

/* Returns `g` padded to whole windows. */
fv_grid fv_windows_pad(const fv_grid *g, uint32_t side);
/* Makes the windows of a grid. The caller must not use them if the builder has failed. */
fv_windows fv_windows_make(fv_builder *b, const fv_grid *g, uint32_t side, fv_window_shift shift);

/* Returns, for every position of the padded grid, its row, with the shift undone. Returns NULL if
 * rows are in that order already or the builder has failed. */
const uint32_t *fv_windows_places(fv_builder *b, const fv_windows *w);

/* Emits the norm of x, and returns it as w->rows rows in the order of windows. */
fv_view fv_windows_enter(fv_builder *b, const fv_windows *w, const char *label, fv_view x,
                         const fv_layer *norm, float eps);
/* Emits x + `projection` of `attended`, and returns its rows. `attended` is in the order of
 * windows; the result is in the order of the grid. */
fv_view fv_windows_leave(fv_builder *b, const fv_windows *w, const char *label,
                         const fv_layer *projection, fv_view attended, fv_view x);

#endif
