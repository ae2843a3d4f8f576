/* depth_map.c: fovea_depth_map: the depth of every pixel, interpolated as transformers'
 * post_process_depth_estimation does: torch's bicubic without antialiasing. */
#include <math.h>

#include "run/task_output.h"

typedef struct depth_grid {
    fv_task_output depth;
    fv_extent extent;
    fv_side rows;
    const fv_cubic *column; /* columns of the map */
    float *line;            /* the grid's rows interpolated at the height of a row of the map */
} depth_grid;

static fovea_status find(depth_grid *out, const fovea_plan *p, const fovea_output *outs,
                         size_t n_outs, fovea_extent extent, const void *map, size_t capacity)
{
    FV_TRY(fv_task_output_check(p, outs, n_outs));
    FV_TRY(fv_require(map, "the map"));
    FV_TRY(fv_task_output_of(&out->depth, p, outs, FOVEA_OUTPUT_DEPTH, "predicted_depth"));
    FV_TRY(fv_extent_of(&out->extent, p, extent));
    FV_TRY(fv_task_output_capacity("pixels", capacity,
                                   (size_t)out->extent.width * out->extent.height));
    out->rows = fv_extent_down(&out->extent, out->depth.grid.height);
    out->column = fv_extent_cubic_columns(&out->extent, p, out->depth.grid.width);
    out->line = p->run.results.floats;
    return FOVEA_OK;
}

/* Computes g->line for row y of the map, and whether the row is outside the picture. */
static void take_row(const depth_grid *g, uint32_t y)
{
    const size_t width = g->depth.grid.width;
    const fv_cubic c = fv_side_cubic(&g->rows, y);
    const float *a = g->depth.data + c.place[0] * width, *b = g->depth.data + c.place[1] * width;
    const float *d = g->depth.data + c.place[2] * width, *e = g->depth.data + c.place[3] * width;
    for (size_t x = 0; x < width; x++)
        g->line[x] = c.outside ? NAN
                               : c.weight[0] * a[x] + c.weight[1] * b[x] + c.weight[2] * d[x] +
                                     c.weight[3] * e[x];
}

/* Returns the depth of pixel x in that row, or NaN outside the picture. */
static float depth_at(const depth_grid *g, uint32_t x)
{
    const fv_cubic *c = &g->column[x];
    const float *l = g->line;
    return c->outside ? NAN
                      : c->weight[0] * l[c->place[0]] + c->weight[1] * l[c->place[1]] +
                            c->weight[2] * l[c->place[2]] + c->weight[3] * l[c->place[3]];
}

fovea_status fovea_depth_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_extent extent, float *depth, size_t capacity)
{
    depth_grid g;
    FV_TRY(find(&g, plan, outs, n_outs, extent, depth, capacity));
    for (uint32_t y = 0; y < g.extent.height; y++) {
        take_row(&g, y);
        for (uint32_t x = 0; x < g.extent.width; x++)
            *depth++ = depth_at(&g, x);
    }
    return FOVEA_OK;
}

/* Finds the smallest and the largest depth of all finite pixels. */
static void find_range(float *least, float *greatest, const depth_grid *g)
{
    *least = INFINITY;
    *greatest = -INFINITY;
    for (uint32_t y = 0; y < g->extent.height; y++) {
        take_row(g, y);
        for (uint32_t x = 0; x < g->extent.width; x++) {
            const float d = depth_at(g, x);
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
                                 fovea_extent extent, double unit, uint16_t *depth, size_t capacity)
{
    depth_grid g;
    float least = 0, greatest;
    double from = 0, step = unit;
    FV_TRY(find(&g, plan, outs, n_outs, extent, depth, capacity));
    if (!(unit >= 0 && isfinite(unit)))
        return fv_fail(
            FOVEA_EINVAL,
            "the unit of depth is %g; it must be positive, such as 0.001 for millimetres, or 0",
            unit);
    if (unit == 0) {
        find_range(&least, &greatest, &g);
        step = greatest > least ? ((double)greatest - least) / (UINT16_MAX - 1) : 1;
        from = least - step; /* the depth that becomes 1 */
    }
    for (uint32_t y = 0; y < g.extent.height; y++) {
        take_row(&g, y);
        for (uint32_t x = 0; x < g.extent.width; x++) {
            const float d = depth_at(&g, x);
            *depth++ = isnan(d) ? 0 : steps_of((d - from) / step);
        }
    }
    return FOVEA_OK;
}
