/* foveated.c: see foveated.h. */
#include "ops/foveated.h"

fv_fovea fv_fovea_of(const fv_problem *p)
{
    const uint32_t width = p->dim[FV_FOVEA_WIDTH], height = p->dim[FV_FOVEA_HEIGHT];
    return (fv_fovea){p->dim[FV_ATTN_KEYS] - width * height, width, height,
                      fv_fovea_levels(width, height), p->dim[FV_FOVEA_MARGIN]};
}

uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x)
{
    return fv_fovea_first(f, level) + (y >> level) * fv_fovea_columns(f, level) + (x >> level);
}

uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell)
{
    return fv_fovea_size(fv_fovea_cell(f, cell));
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
    w->level = level;
    w->part = 0;
    if (level > w->f->levels)
        return;
    w->ring = fv_fovea_ring_of(w->f, level, w->block_y, w->block_x);
    w->y = w->ring.area.y0;
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
    const fv_fovea_area *a = &w->ring.area, *hole = &w->ring.hole;
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
        if (w->y == w->ring.area.y1) {
            enter(w, w->level + 1);
            continue;
        }
        const fv_fovea_run run = next_part(w);
        if (run.count > 0)
            return run;
    }
    return (fv_fovea_run){0};
}
