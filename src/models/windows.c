/* windows.c: computes the order of tokens in windows, and moves tokens to this order and back. */
#include "models/windows.h"
#include "ops/contracts/grid.h"

#include "models/layer.h"

fv_grid fv_windows_pad(const fv_grid *g, uint32_t side)
{
    return (fv_grid){fv_windows_whole(g->width, side), fv_windows_whole(g->height, side), g->stride,
                     0};
}

/* Returns the stripe that `at` is in: 0 for all windows except the last; 1 or 2 for the two parts
 * of the last window, which the cyclic shift has made adjacent. */
static uint32_t stripe(uint32_t at, uint32_t size, uint32_t side, uint32_t shift)
{
    return at < size - side ? 0 : at < size - shift ? 1 : 2;
}

/* Returns the position, along one side of the grid, of what the shifted, padded grid has at `at`.
 * Positions from `size` on are padding. */
static uint32_t unshifted(uint32_t at, uint32_t size, uint32_t padded, uint32_t shift, bool first)
{
    if (first)
        return at < size ? (at + shift) % size : at;
    return (at + shift) % padded;
}

/* Returns the row of the token at (x, y) of the shifted, padded grid. */
static uint32_t row_of(const fv_windows *o, const fv_grid *padded, uint32_t x, uint32_t y)
{
    const uint32_t w = o->side, across = padded->width / w;
    return (y / w * across + x / w) * w * w + y % w * w + x % w;
}

static void fill(fv_windows *o, const fv_grid *padded)
{
    for (uint32_t y = 0; y < padded->height; y++)
        for (uint32_t x = 0; x < padded->width; x++) {
            const uint32_t row = row_of(o, padded, x, y);
            const uint32_t from_y =
                unshifted(y, o->grid.height, padded->height, o->shift.y, o->shift.first);
            const uint32_t from_x =
                unshifted(x, o->grid.width, padded->width, o->shift.x, o->shift.first);
            const bool inside = from_y < o->grid.height && from_x < o->grid.width;
            o->token[row] = inside ? from_y * o->grid.width + from_x : FV_GATHER_NONE;
            if (inside)
                o->row[o->token[row]] = row;
            if (o->region)
                o->region[row] = 3 * stripe(y, padded->height, o->side, o->shift.y) +
                                 stripe(x, padded->width, o->side, o->shift.x);
        }
}

fv_windows fv_windows_make(fv_builder *b, const fv_grid *g, uint32_t side, fv_window_shift shift)
{
    const bool shifted = shift.x || shift.y;
    const fv_grid padded = fv_windows_pad(g, side);
    fv_windows w = {.grid = *g, .side = side, .shift = shift, .rows = fv_grid_tokens(&padded)};
    /* Windows as wide as the grid are contiguous already. */
    if (!shifted && side == g->width && w.rows == fv_grid_tokens(g))
        return w;
    w.token = fv_emit_table(b, w.rows);
    w.row = fv_emit_table(b, fv_grid_tokens(g));
    w.region = shifted ? fv_emit_table(b, w.rows) : NULL;
    if (b->status == FOVEA_OK)
        fill(&w, &padded);
    return w;
}

const uint32_t *fv_windows_places(fv_builder *b, const fv_windows *w)
{
    const fv_grid padded = fv_windows_pad(&w->grid, w->side);
    const fv_window_shift s = w->shift;
    uint32_t *place = w->token ? fv_emit_table(b, w->rows) : NULL;
    for (uint32_t y = 0; place && y < padded.height; y++)
        for (uint32_t x = 0; x < padded.width; x++)
            place[unshifted(y, w->grid.height, padded.height, s.y, s.first) * padded.width +
                  unshifted(x, w->grid.width, padded.width, s.x, s.first)] =
                row_of(w, &padded, x, y);
    return place;
}

fv_view fv_windows_enter(fv_builder *b, const fv_windows *w, const char *label, fv_view x,
                         const fv_layer *norm, float eps)
{
    const uint32_t n = fv_grid_tokens(&w->grid);
    /* Tokens outside the grid are zero after the norm. */
    const bool padded = w->rows > n;
    if (padded)
        x = fv_layer_norm(b, label, norm, x, eps, n);
    if (w->token) {
        const fv_view out = fv_emit_rows(b, w->rows, norm->w.cols);
        fv_emit_gather(b, "into windows", x, w->token, 1, FV_NO_VIEW, out, w->rows, norm->w.cols);
        x = out;
    }
    return padded ? x : fv_layer_norm(b, label, norm, x, eps, w->rows);
}

fv_view fv_windows_leave(fv_builder *b, const fv_windows *w, const char *label,
                         const fv_layer *projection, fv_view attended, fv_view x)
{
    const uint32_t n = fv_grid_tokens(&w->grid), width = projection->w.rows;
    const fv_view projected =
        fv_layer_add(b, label, projection, attended, w->row ? FV_NO_VIEW : x, w->rows);
    if (!w->row)
        return projected;
    const fv_view back = fv_emit_rows(b, n, width);
    fv_emit_gather(b, "out of windows", projected, w->row, 1, x, back, n, width);
    return back;
}
