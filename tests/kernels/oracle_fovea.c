/* oracle_fovea.c: see oracle_fovea.h. */
#include "tests/kernels/oracle_fovea.h"
#include "ops/contracts/softmax_attention.h"

#include <math.h>

fovea_grid fovea_grid_of(const check_case *c)
{
    const uint32_t *dim = c->args.prob.dim;
    fovea_grid g = {.width = dim[FV_FOVEA_WIDTH],
                    .height = dim[FV_FOVEA_HEIGHT],
                    .margin = dim[FV_FOVEA_MARGIN]};
    const double side = fmax(g.width, g.height);
    g.prefix = dim[FV_ATTN_KEYS] - g.width * g.height;
    for (g.levels = 1; ceil(side / pow(2, g.levels)) > 10;)
        g.levels++;
    return g;
}

uint32_t fovea_grid_set(check_case *c, uint32_t prefix, uint32_t width, uint32_t height)
{
    uint32_t *dim = c->args.prob.dim;
    dim[FV_ATTN_KEYS] = prefix + width * height;
    dim[FV_FOVEA_WIDTH] = width;
    dim[FV_FOVEA_HEIGHT] = height;
    return dim[FV_ATTN_KEYS];
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

uint32_t fovea_grid_cell(const fovea_grid *g, uint32_t cell, fovea_area *out)
{
    for (uint32_t level = 1; level <= g->levels; level++) {
        const int64_t side = 1 << level;
        for (int64_t y = 0; y < g->height; y += side)
            for (int64_t x = 0; x < g->width; x += side, cell--) {
                *out = (fovea_area){y, lesser(y + side, g->height), x, lesser(x + side, g->width)};
                if (cell == 0)
                    return level;
            }
    }
    return 0;
}

uint32_t fovea_grid_cells(const fovea_grid *g)
{
    fovea_area a;
    uint32_t n = 0;
    while (fovea_grid_cell(g, n, &a))
        n++;
    return n;
}

double fovea_area_tokens(const fovea_area *a)
{
    return (double)((a->y1 - a->y0) * (a->x1 - a->x0));
}

/* Widens [from, from + 8) by `margin` on both sides, to multiples of `unit`. */
static void widen(int64_t *low, int64_t *high, int64_t from, int64_t margin, int64_t unit,
                  int64_t end)
{
    *low = (int64_t)fmax(0., floor((double)(from - margin) / (double)unit) * (double)unit);
    *high = lesser((int64_t)(ceil((double)(from + 8 + margin) / (double)unit) * (double)unit), end);
}

/* Returns the region up to which the block at (y, x) sees cells of a level; it is empty for level
 * -1. */
static fovea_area region(const fovea_grid *g, int64_t level, int64_t y, int64_t x)
{
    fovea_area a = {0, g->height, 0, g->width};
    if (level < 0)
        return (fovea_area){0, 0, 0, 0};
    if (level == g->levels)
        return a;
    const int64_t unit = (int64_t)1 << (level + 1), margin = g->margin * (unit - 1);
    widen(&a.y0, &a.y1, y, margin, unit, g->height);
    widen(&a.x0, &a.x1, x, margin, unit, g->width);
    return a;
}

static bool inside(const fovea_area *a, const fovea_area *of)
{
    return a->y0 >= of->y0 && a->y1 <= of->y1 && a->x0 >= of->x0 && a->x1 <= of->x1;
}

uint32_t fovea_grid_keys(const fovea_grid *g, uint32_t row, fovea_key *out)
{
    const uint32_t tokens = g->prefix + g->width * g->height;
    uint32_t n = 0, level;
    fovea_area a;
    const int64_t at = (int64_t)row - g->prefix;
    const int64_t y = at / g->width / 8 * 8, x = at % g->width / 8 * 8;
    const fovea_area near = region(g, 0, y, x);
    for (uint32_t j = 0; j < tokens; j++) {
        const int64_t ty = ((int64_t)j - g->prefix) / g->width, tx = (j - g->prefix) % g->width;
        const fovea_area token = {ty, ty + 1, tx, tx + 1};
        if (row < g->prefix || j < g->prefix || inside(&token, &near))
            out[n++] = (fovea_key){{FV_FOVEATED_K, j}, {FV_FOVEATED_V, j}, 1};
    }
    for (uint32_t j = 0; row >= g->prefix && (level = fovea_grid_cell(g, j, &a)) > 0; j++) {
        const fovea_area outer = region(g, level, y, x),
                         inner = region(g, (int64_t)level - 1, y, x);
        if (inside(&a, &outer) && !inside(&a, &inner))
            out[n++] = (fovea_key){
                {FV_FOVEATED_CELL_K, j}, {FV_FOVEATED_CELL_V, j}, fovea_area_tokens(&a)};
    }
    return n;
}
