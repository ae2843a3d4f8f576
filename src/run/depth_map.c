/* depth_map.c: fovea_depth_map: the depth of every pixel. */
#include <math.h>

#include "run/task_output.h"

typedef struct depth_grid {
    fv_task_output depth;
    fv_extent extent;
} depth_grid;

static fovea_status find(depth_grid *out, const fovea_plan *p, const fovea_output *outs,
                         size_t n_outs, fovea_extent extent, const void *map, size_t room)
{
    FV_TRY(fv_task_output_check(p, outs, n_outs));
    FV_TRY(fv_require(map, "the map"));
    FV_TRY(fv_task_output_of(&out->depth, p, outs, FOVEA_KIND_DEPTH, "predicted_depth"));
    FV_TRY(fv_extent_of(&out->extent, p, extent));
    return fv_task_output_room("pixels", room, (size_t)out->extent.width * out->extent.height);
}

/* Of a pixel in a row; NaN outside. */
static float depth_at(const depth_grid *g, const fv_between *row, uint32_t x)
{
    const fv_between column = fv_extent_column(&g->extent, x, g->depth.grid.width);
    const float *a = g->depth.data + (size_t)row->first * g->depth.grid.width;
    const float *b = g->depth.data + (size_t)row->second * g->depth.grid.width;
    float pair[2];
    if (row->outside || column.outside)
        return NAN;
    for (int k = 0; k < 2; k++) {
        const uint32_t at = k ? column.second : column.first;
        pair[k] = a[at] + row->part * (b[at] - a[at]);
    }
    return pair[0] + column.part * (pair[1] - pair[0]);
}

fovea_status fovea_depth_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_extent extent, float *depth, size_t room)
{
    depth_grid g;
    FV_TRY(find(&g, plan, outs, n_outs, extent, depth, room));
    for (uint32_t y = 0; y < g.extent.height; y++) {
        const fv_between row = fv_extent_row(&g.extent, y, g.depth.grid.height);
        for (uint32_t x = 0; x < g.extent.width; x++)
            *depth++ = depth_at(&g, &row, x);
    }
    return FOVEA_OK;
}

/* The least and the greatest of all pixels; those that are no numbers or infinite are left out. */
static void find_range(float *least, float *greatest, const depth_grid *g)
{
    *least = INFINITY;
    *greatest = -INFINITY;
    for (uint32_t y = 0; y < g->extent.height; y++) {
        const fv_between row = fv_extent_row(&g->extent, y, g->depth.grid.height);
        for (uint32_t x = 0; x < g->extent.width; x++) {
            const float d = depth_at(g, &row, x);
            if (isfinite(d)) {
                *least = fminf(*least, d);
                *greatest = fmaxf(*greatest, d);
            }
        }
    }
}

static uint16_t steps_of(double steps)
{
    return (uint16_t)fmin(fmax(1, nearbyint(steps)), UINT16_MAX);
}

fovea_status fovea_depth_map_u16(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                 fovea_extent extent, double unit, uint16_t *depth, size_t room)
{
    depth_grid g;
    float least = 0, greatest;
    double from = 0, step = unit;
    FV_TRY(find(&g, plan, outs, n_outs, extent, depth, room));
    if (!(unit >= 0 && isfinite(unit)))
        return fv_fail(FOVEA_EINVAL, "depth in steps of %g; give 0.001 for millimetres, or 0",
                       unit);
    if (unit == 0) {
        find_range(&least, &greatest, &g);
        step = greatest > least ? ((double)greatest - least) / (UINT16_MAX - 1) : 1;
        from = least - step; /* which becomes 1 */
    }
    for (uint32_t y = 0; y < g.extent.height; y++) {
        const fv_between row = fv_extent_row(&g.extent, y, g.depth.grid.height);
        for (uint32_t x = 0; x < g.extent.width; x++) {
            const float d = depth_at(&g, &row, x);
            *depth++ = isnan(d) ? 0 : steps_of((d - from) / step);
        }
    }
    return FOVEA_OK;
}
