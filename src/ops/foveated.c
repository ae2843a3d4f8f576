/* foveated.c: see foveated.h. */
#include "ops/foveated.h"

#include <stdbool.h>

#include "base/num.h"

fv_fovea fv_fovea_of(const fv_problem *p)
{
    const uint32_t width = p->dim[FV_FOVEA_WIDTH], height = p->dim[FV_FOVEA_HEIGHT];
    return (fv_fovea){p->dim[FV_ATTN_KEYS] - width * height, width, height,
                      fv_fovea_levels(width, height), p->dim[FV_FOVEA_MARGIN]};
}

uint32_t fv_fovea_levels(uint32_t width, uint32_t height)
{
    const uint32_t side = width > height ? width : height;
    uint32_t levels = 1;
    while (levels < FV_FOVEA_LEVELS && fv_ceil_div(side, 1u << levels) > FV_FOVEA_LAST)
        levels++;
    return levels;
}

uint32_t fv_fovea_columns(const fv_fovea *f, uint32_t level)
{
    return fv_ceil_div(f->width, 1u << level);
}

uint32_t fv_fovea_cells(const fv_fovea *f, uint32_t level)
{
    return fv_fovea_columns(f, level) * fv_ceil_div(f->height, 1u << level);
}

uint32_t fv_fovea_first(const fv_fovea *f, uint32_t level)
{
    uint32_t sum = 0;
    for (uint32_t l = 1; l < level; l++)
        sum += fv_fovea_cells(f, l);
    return sum;
}

uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x)
{
    return fv_fovea_first(f, level) + (y >> level) * fv_fovea_columns(f, level) + (x >> level);
}

fv_fovea_area fv_fovea_cell(const fv_fovea *f, uint32_t cell)
{
    uint32_t level = 1;
    for (; cell >= fv_fovea_cells(f, level); level++)
        cell -= fv_fovea_cells(f, level);
    const uint32_t columns = fv_fovea_columns(f, level), side = 1u << level;
    const uint32_t y = cell / columns * side, x = cell % columns * side;
    return (fv_fovea_area){y, fv_min_u32(y + side, f->height), x, fv_min_u32(x + side, f->width)};
}

static uint32_t area_of(fv_fovea_area a)
{
    return (a.y1 - a.y0) * (a.x1 - a.x0);
}

uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell)
{
    return area_of(fv_fovea_cell(f, cell));
}

/* [at, at + block) and `margin` on both sides, grown to multiples of `unit`, inside [0, end). */
static void grow(uint32_t *low, uint32_t *high, uint32_t at, uint32_t margin, uint32_t unit,
                 uint32_t end)
{
    const uint32_t first = at > margin ? at - margin : 0;
    *low = first / unit * unit;
    *high = fv_min_u32(fv_round_up(at + FV_FOVEA_BLOCK + margin, unit), end);
}

fv_fovea_area fv_fovea_region(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x)
{
    fv_fovea_area a = {0, f->height, 0, f->width};
    if (level >= f->levels)
        return a;
    const uint32_t unit = 2u << level, margin = f->margin * (unit - 1);
    grow(&a.y0, &a.y1, y, margin, unit, f->height);
    grow(&a.x0, &a.x1, x, margin, unit, f->width);
    return a;
}

/* Of tokens to cells of a level, those that are begun included. */
static fv_fovea_area in_cells(fv_fovea_area a, uint32_t level)
{
    const uint32_t side = 1u << level;
    return (fv_fovea_area){a.y0 / side, fv_ceil_div(a.y1, side), a.x0 / side,
                           fv_ceil_div(a.x1, side)};
}

uint32_t fv_fovea_keys(const fv_fovea *f, uint32_t y, uint32_t x)
{
    uint32_t keys = f->prefix + area_of(fv_fovea_region(f, 0, y, x));
    for (uint32_t l = 1; l <= f->levels; l++)
        keys += area_of(in_cells(fv_fovea_region(f, l, y, x), l)) -
                area_of(in_cells(fv_fovea_region(f, l - 1, y, x), l));
    return keys;
}

double fv_fovea_mean_keys(const fv_fovea *f)
{
    const double tokens = f->prefix + (double)f->width * f->height;
    double sum = f->prefix * tokens;
    for (uint32_t y = 0; y < f->height; y += FV_FOVEA_BLOCK)
        for (uint32_t x = 0; x < f->width; x += FV_FOVEA_BLOCK)
            sum += (double)fv_fovea_keys(f, y, x) * fv_min_u32(FV_FOVEA_BLOCK, f->height - y) *
                   fv_min_u32(FV_FOVEA_BLOCK, f->width - x);
    return sum / tokens;
}

static void enter(fv_fovea_walk *w, uint32_t level)
{
    const fv_fovea *f = w->f;
    w->level = level;
    w->part = 0;
    if (level > f->levels)
        return;
    w->area = in_cells(fv_fovea_region(f, level, w->block_y, w->block_x), level);
    w->hole = (fv_fovea_area){0};
    if (level > 0)
        w->hole = in_cells(fv_fovea_region(f, level - 1, w->block_y, w->block_x), level);
    w->y = w->area.y0;
}

void fv_fovea_begin(fv_fovea_walk *w, const fv_fovea *f, uint32_t y, uint32_t x)
{
    *w = (fv_fovea_walk){.f = f, .first = f->prefix, .block_y = y, .block_x = x};
    enter(w, 0);
}

void fv_fovea_begin_prefix(fv_fovea_walk *w, const fv_fovea *f)
{
    *w = (fv_fovea_walk){.f = f, .first = f->prefix + f->width * f->height};
    enter(w, f->levels + 1);
}

/* The next cells of a row that are not in the hole. */
static fv_fovea_run next_part(fv_fovea_walk *w)
{
    const fv_fovea_area *a = &w->area, *hole = &w->hole;
    const bool holed = w->y >= hole->y0 && w->y < hole->y1;
    const uint32_t from = w->part ? hole->x1 : a->x0, to = w->part || !holed ? a->x1 : hole->x0;
    const uint32_t first = w->level ? fv_fovea_first(w->f, w->level) : w->f->prefix;
    const fv_fovea_run run = {w->level, first + w->y * fv_fovea_columns(w->f, w->level) + from,
                              to - from};
    if (holed && !w->part) {
        w->part = 1;
        return run;
    }
    w->part = 0;
    w->y++;
    return run;
}

fv_fovea_run fv_fovea_next(fv_fovea_walk *w)
{
    if (w->first > 0) {
        const fv_fovea_run run = {0, 0, w->first};
        w->first = 0;
        return run;
    }
    while (w->level <= w->f->levels) {
        if (w->y == w->area.y1) {
            enter(w, w->level + 1);
            continue;
        }
        const fv_fovea_run run = next_part(w);
        if (run.count > 0)
            return run;
    }
    return (fv_fovea_run){0};
}
