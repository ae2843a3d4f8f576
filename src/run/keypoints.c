/* keypoints.c: fovea_keypoints, fovea_box_keypoints: converts heat maps to points.
 *
 *     h = ln clip(blur(map), 1/1000, 50)      a Gaussian of 0.8 cells, over 11 x 11 cells
 *     p - H^-1 g                              p: the highest cell of the map; g, H: the gradient
 *                                             and the Hessian of h there
 *
 * "Distribution-aware coordinate representation" (DARK), with finite differences as in "The Devil
 * is in the Details". The centres of the first and the last cell of a map are the edges of the
 * picture. If H is nearly singular, the result depends on the last bits. Numbers are therefore
 * rounded to float32 at the same points as in transformers' post_process_pose_estimation: after
 * each pass of the blur, in the logarithm, in the differences. */
#include <float.h>
#include <math.h>

#include "ops/box_crop.h"
#include "run/task_output.h"

enum { RADIUS = 5, TAPS = 2 * RADIUS + 1 };
#define SIGMA 0.8

static float heat(const fv_task_output *maps, uint32_t point, int64_t x, int64_t y)
{
    return maps->data[(size_t)(y * maps->grid.width + x) * maps->columns + point];
}

/* Returns the index that position i of a map mirrors beyond its edges: b a | a b c | c b. */
static int64_t mirrored(int64_t i, int64_t n)
{
    const int64_t at = (i % (2 * n) + 2 * n) % (2 * n);
    return at < n ? at : 2 * n - 1 - at;
}

static void gaussian(double weight[TAPS])
{
    double sum = 0;
    for (int i = 0; i < TAPS; i++)
        sum += weight[i] = exp(-0.5 / (SIGMA * SIGMA) * (i - RADIUS) * (i - RADIUS));
    for (int i = 0; i < TAPS; i++)
        weight[i] /= sum;
}

/* Returns the weighted sum. The two values at the same distance from the middle are added first. */
static float weighted(const double weight[TAPS], const float value[TAPS])
{
    double sum = value[RADIUS] * weight[RADIUS];
    for (int i = 0; i < RADIUS; i++)
        sum += ((double)value[i] + (double)value[TAPS - 1 - i]) * weight[i];
    return (float)sum;
}

/* Returns the logarithm of the blurred map at (x, y), or at the nearest cell beyond the edges. */
static float log_heat(const fv_task_output *maps, uint32_t point, const double weight[TAPS],
                      int64_t x, int64_t y)
{
    const int64_t width = maps->grid.width, height = maps->grid.height;
    float column[TAPS], line[TAPS];
    x = x < 0 ? 0 : x < width ? x : width - 1;
    y = y < 0 ? 0 : y < height ? y : height - 1;
    for (int j = 0; j < TAPS; j++) {
        for (int i = 0; i < TAPS; i++)
            column[i] = heat(maps, point, mirrored(x + j - RADIUS, width),
                             mirrored(y + i - RADIUS, height));
        line[j] = weighted(weight, column);
    }
    return logf(fminf(fmaxf(weighted(weight, line), 1e-3f), 50));
}

/* The logarithm at a cell, and at the neighbours that the gradient and Hessian need. */
typedef struct around {
    float here, left, right, above, below, upper_left, lower_right;
} around;

/* Computes the distance from the cell to the maximum of the quadratic surface through these values.
 */
static void refine(double move[2], const around *a)
{
    const double gx = 0.5f * (a->right - a->left), gy = 0.5f * (a->below - a->above);
    const double xx = (double)(a->right - 2 * a->here + a->left) + FLT_EPSILON;
    const double yy = (double)(a->below - 2 * a->here + a->above) + FLT_EPSILON;
    const double xy = 0.5f * (a->lower_right - a->right - a->below + a->here + a->here - a->left -
                              a->above + a->upper_left);
    const double determinant = xx * yy - xy * xy;
    move[0] = -(yy * gx - xy * gy) / determinant;
    move[1] = -(xx * gy - xy * gx) / determinant;
    if (!isfinite(move[0]) || !isfinite(move[1]))
        move[0] = move[1] = 0;
}

/* Returns the values at cell (x, y) and its neighbours. */
static around look_around(const fv_task_output *maps, uint32_t point, int64_t x, int64_t y)
{
    double weight[TAPS];
    gaussian(weight);
#define AT(right, below) log_heat(maps, point, weight, x + (right), y + (below))
    return (around){AT(0, 0), AT(-1, 0), AT(1, 0), AT(0, -1), AT(0, 1), AT(-1, -1), AT(1, 1)};
#undef AT
}

/* Returns the values for a map in which nothing is above 0. transformers then uses cell (-1, -1).
 * It stores the maps one after another, with a border around each, so the neighbours at the left of
 * this cell and above it are corners of the previous map. */
static around look_nowhere(const fv_task_output *maps, uint32_t point)
{
    const uint32_t before = (point + maps->columns - 1) % maps->columns;
    const int64_t right = maps->grid.width - 1, bottom = maps->grid.height - 1;
    double weight[TAPS];
    gaussian(weight);
    const float here = log_heat(maps, point, weight, 0, 0);
    const float corner = log_heat(maps, before, weight, right, bottom);
    const float above = log_heat(maps, before, weight, 0, bottom);
    return (around){here, corner, here, above, here, corner, here};
}

/* Finds the point of a heat map, in cells of the map. */
static fovea_keypoint find_point(const fv_task_output *maps, uint32_t point)
{
    uint32_t best = UINT32_MAX;
    float most = -INFINITY;
    double move[2];
    for (uint32_t i = 0; i < maps->rows; i++) {
        const float x = maps->data[(size_t)i * maps->columns + point];
        if (x > most) {
            most = x;
            best = i;
        }
    }
    if (best == UINT32_MAX)
        return (fovea_keypoint){-1, -1, 0};
    const bool found = most > 0;
    const int64_t x = found ? (int64_t)(best % maps->grid.width) : -1;
    const int64_t y = found ? (int64_t)(best / maps->grid.width) : -1;
    const around a = found ? look_around(maps, point, x, y) : look_nowhere(maps, point);
    refine(move, &a);
    return (fovea_keypoint){(float)((double)x + move[0]), (float)((double)y + move[1]), most};
}

static fovea_status find_maps(fv_task_output *maps, const fovea_plan *plan,
                              const fovea_output *outs, size_t n_outs, fovea_keypoint *points,
                              size_t capacity, size_t *count)
{
    FV_TRY(fv_task_output_check(plan, outs, n_outs));
    FV_TRY(fv_require(points, "the pointer to the points"));
    FV_TRY(fv_require(count, "the pointer to the number of points"));
    FV_TRY(fv_task_output_of(maps, plan, outs, FOVEA_OUTPUT_KEYPOINTS, "heatmaps"));
    return fv_task_output_capacity("key points", capacity, maps->columns);
}

/* Finds the points in pixels of the frame; the maps show the box `view` of the frame. */
static void find_in_box(fovea_keypoint *points, const fv_task_output *maps, const fv_box_view *view)
{
    const float wide = view->scale[0] * FV_BOX_UNIT, high = view->scale[1] * FV_BOX_UNIT;
    const float across = wide / fmaxf(1, (float)maps->grid.width - 1);
    const float down = high / fmaxf(1, (float)maps->grid.height - 1);
    for (uint32_t k = 0; k < maps->columns; k++) {
        const fovea_keypoint p = find_point(maps, k);
        points[k] = (fovea_keypoint){p.x * across + view->middle[0] - wide * 0.5f,
                                     p.y * down + view->middle[1] - high * 0.5f, p.score};
    }
}

/* Finds the points in pixels of the frame; the maps show the part of the frame that the plan's
 * preprocessing keeps. */
static void find_in_picture(fovea_keypoint *points, const fv_task_output *maps,
                            const fovea_plan_info *i)
{
    const double across = i->scale_x * i->width / fmax(1, maps->grid.width - 1.0);
    const double down = i->scale_y * i->height / fmax(1, maps->grid.height - 1.0);
    for (uint32_t k = 0; k < maps->columns; k++) {
        const fovea_keypoint p = find_point(maps, k);
        points[k] = (fovea_keypoint){(float)(i->left + p.x * across), (float)(i->top + p.y * down),
                                     p.score};
    }
}

fovea_status fovea_keypoints(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_keypoint *points, size_t capacity, size_t *count)
{
    fv_task_output maps;
    FV_TRY(find_maps(&maps, plan, outs, n_outs, points, capacity, count));
    if (plan->frame.crops.size) {
        fv_box_view view;
        const fovea_box whole = fv_whole_frame(plan);
        FV_TRY(fv_box_view_of(&view, &whole, plan->info.width, plan->info.height));
        find_in_box(points, &maps, &view);
    } else {
        find_in_picture(points, &maps, &plan->info);
    }
    *count = maps.columns;
    return FOVEA_OK;
}

fovea_status fovea_box_keypoints(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                 const fovea_box *box, fovea_keypoint *points, size_t capacity,
                                 size_t *count)
{
    fv_task_output maps;
    fv_box_view view;
    FV_TRY(fv_require(box, "the box"));
    FV_TRY(find_maps(&maps, plan, outs, n_outs, points, capacity, count));
    FV_TRY(fv_box_view_of(&view, box, plan->info.width, plan->info.height));
    find_in_box(points, &maps, &view);
    *count = maps.columns;
    return FOVEA_OK;
}
