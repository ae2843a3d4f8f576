/* keypoints.c: fovea_keypoints: heat maps become points.
 *
 *     h = ln clip(blur(map), 1/1000, 50)      a Gaussian of 0.8 places, over 11 x 11 of them
 *     p - H^-1 g                              p: the highest place of the map; g, H: the gradient
 *                                             and the Hessian of h there
 *
 * "Distribution-aware coordinate representation" (DARK), with differences of neighbours as "The
 * devil is in the details" has them. The first and the last place of a map are the edges of the
 * picture.
 */
#include <float.h>
#include <math.h>

#include "run/task_output.h"

enum { RADIUS = 5, TAPS = 2 * RADIUS + 1 };
#define SIGMA 0.8

static float heat(const fv_task_output *maps, uint32_t point, int64_t x, int64_t y)
{
    return maps->data[(size_t)(y * maps->grid.width + x) * maps->columns + point];
}

/* Beyond its edges a map is as in a mirror at them: b a | a b c | c b. */
static int64_t mirrored(int64_t i, int64_t n)
{
    const int64_t at = (i % (2 * n) + 2 * n) % (2 * n);
    return at < n ? at : 2 * n - 1 - at;
}

/* The blurred map's logarithm; beyond the edges that of the nearest place. */
static double log_heat(const fv_task_output *maps, uint32_t point, int64_t x, int64_t y)
{
    const int64_t width = maps->grid.width, height = maps->grid.height;
    double weight[TAPS], all = 0, sum = 0;
    x = x < 0 ? 0 : x < width ? x : width - 1;
    y = y < 0 ? 0 : y < height ? y : height - 1;
    for (int i = 0; i < TAPS; i++)
        all += weight[i] = exp(-0.5 * (i - RADIUS) * (i - RADIUS) / (SIGMA * SIGMA));
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < TAPS; j++)
            sum += weight[i] * weight[j] *
                   heat(maps, point, mirrored(x + j - RADIUS, width),
                        mirrored(y + i - RADIUS, height));
    return log(fmin(fmax(sum / (all * all), 1e-3), 50));
}

/* How far the top of the surface through a place and its neighbours lies from it. */
static void refine(double move[2], const fv_task_output *maps, uint32_t point, int64_t x, int64_t y)
{
#define AT(right, below) log_heat(maps, point, x + (right), y + (below))
    const double h = AT(0, 0), right = AT(1, 0), left = AT(-1, 0), below = AT(0, 1);
    const double above = AT(0, -1);
    const double xy = 0.5 * (AT(1, 1) - right - below + 2 * h - left - above + AT(-1, -1));
#undef AT
    const double gx = 0.5 * (right - left), gy = 0.5 * (below - above);
    const double xx = right - 2 * h + left + FLT_EPSILON, yy = below - 2 * h + above + FLT_EPSILON;
    const double determinant = xx * yy - xy * xy;
    move[0] = -(yy * gx - xy * gy) / determinant;
    move[1] = -(xx * gy - xy * gx) / determinant;
    if (!isfinite(move[0]) || !isfinite(move[1]))
        move[0] = move[1] = 0;
}

/* In places of the map. */
static fovea_keypoint find_point(const fv_task_output *maps, uint32_t point)
{
    uint32_t best = UINT32_MAX;
    float most = -INFINITY;
    double move[2] = {0, 0};
    for (uint32_t i = 0; i < maps->rows; i++) {
        const float x = maps->data[(size_t)i * maps->columns + point];
        if (x > most) {
            most = x;
            best = i;
        }
    }
    if (best == UINT32_MAX)
        return (fovea_keypoint){0, 0, 0};
    const uint32_t x = best % maps->grid.width, y = best / maps->grid.width;
    if (most > 0)
        refine(move, maps, point, x, y);
    return (fovea_keypoint){(float)(x + move[0]), (float)(y + move[1]), most};
}

fovea_status fovea_keypoints(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_keypoint *points, size_t room, size_t *count)
{
    fv_task_output maps;
    FV_TRY(fv_task_output_check(plan, outs, n_outs));
    FV_TRY(fv_require(points, "the place of the points"));
    FV_TRY(fv_require(count, "the place of the number of points"));
    FV_TRY(fv_task_output_of(&maps, plan, outs, FOVEA_KIND_KEYPOINTS, "heatmaps"));
    FV_TRY(fv_task_output_room("key points", room, maps.columns));
    const fovea_plan_info *i = &plan->info;
    const double across = i->scale_x * i->width / fmax(1, maps.grid.width - 1.0);
    const double down = i->scale_y * i->height / fmax(1, maps.grid.height - 1.0);
    for (uint32_t k = 0; k < maps.columns; k++) {
        const fovea_keypoint p = find_point(&maps, k);
        points[k] = (fovea_keypoint){(float)(i->left + p.x * across), (float)(i->top + p.y * down),
                                     p.score};
    }
    *count = maps.columns;
    return FOVEA_OK;
}
