/* check_regions.c: cases and definition of CANDIDATES, SUPPRESS, ROI_ALIGN and CLASS_MASK. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_regions.h"
#include "tests/kernels/check.h"

/* ---- regions of scores ---- */

#define ANCHORS 3

/* An fv_region_coder with its anchors. */
static const struct {
    float mean[4], std[4], stride, anchor[ANCHORS][4];
} coders[] = {
    {{0.f, 0.f, 0.f, 0.f},
     {1.f, 1.f, 1.f, 1.f},
     8.f,
     {{-16.f, -8.f, 16.f, 8.f}, {-4.f, -4.f, 4.f, 4.f}, {-8.f, -24.f, 8.f, 24.f}}},
    {{0.1f, -0.2f, 0.05f, 0.f},
     {0.1f, 0.1f, 0.2f, 0.2f},
     4.f,
     {{-5.f, -7.f, 6.f, 9.f}, {0.f, 0.f, 1.f, 1.f}, {-64.f, -1.f, 64.f, 1.f}}},
};
_Static_assert(sizeof coders[0] == sizeof(fv_region_coder) + sizeof coders[0].anchor,
               "the same places");

enum { OF_INDEX, OF_ALL, OF_LARGEST };

static bool make_candidates(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, columns, from, deltas, gap;
        int of;
        uint32_t width; /* of the grid of anchors; 0: regions */
        float score, side;
    } sizes[] = {
        {1, 1, 1, 1, 0, OF_INDEX, 1, -INFINITY, 0.f},
        {7, 3, 12, 3, 1, OF_INDEX, 4, -INFINITY, 0.f},
        {40, 3, 35, 3, 0, OF_INDEX, 7, -0.2f, 12.f},
        {33, 3, 11, 3, 2, OF_ALL, 11, -INFINITY, -1.f},
        {60, 5, 12, 5, 0, OF_ALL, 0, 0.1f, -1.f},
        {35, 7, 5, 1, 1, OF_ALL, 0, -INFINITY, 0.f},
        {9, 5, 9, 5, 0, OF_LARGEST, 0, -INFINITY, -1.f},
        {13, 4, 13, 1, 3, OF_LARGEST, 0, 0.f, 0.f},
        {1000, 3, 8192, 3, 0, OF_INDEX, 128, -INFINITY, 0.f},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, columns = sizes[index].columns;
    const uint32_t from = sizes[index].from, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = columns;
    c->args.prob.dim[FV_CANDIDATES_FROM] = from;
    c->args.prob.dim[FV_CANDIDATES_DELTAS] = sizes[index].deltas;
    c->args.prob.flags = sizes[index].of == OF_LARGEST ? FV_FLAG_LARGEST : 0;
    c->args.u[0] = sizes[index].width;
    c->args.u[1] = index;
    c->args.f[0] = 100.f;
    c->args.f[1] = 61.5f;
    c->args.f[2] = sizes[index].score;
    c->args.f[3] = sizes[index].side;
    c->args.table = &coders[index % 2];
    if (sizes[index].of == OF_INDEX)
        check_matrix(c, FV_CANDIDATES_INDEX, CHECK_ROW, rows, 1, gap);
    check_matrix(c, FV_CANDIDATES_SCORE, CHECK_BASE, from, columns, gap);
    check_matrix(c, FV_CANDIDATES_DELTA, CHECK_BASE, from, 4 * sizes[index].deltas, gap);
    if (!sizes[index].width)
        check_matrix(c, FV_CANDIDATES_REGION, CHECK_BASE, from, FV_REGION_COLUMNS, gap);
    check_matrix(c, FV_CANDIDATES_OUT, CHECK_ROW, rows, FV_REGION_COLUMNS, gap);
    c->bench = rows == 1000;
    return true;
}

static void place_region(check_case *c, check_random *r, int operand, uint32_t row)
{
    for (uint32_t k = 0; k < 2; k++) {
        const float low = 0.125f * (float)check_below(r, 900);
        *check_value(c, operand, row, k) = low;
        *check_value(c, operand, row, k + 2) = low + 0.125f * (float)check_below(r, 700);
    }
    *check_value(c, operand, row, FV_REGION_CLASS) = (float)check_below(r, 4) - 1.f;
}

/* Draws places, of which a few do not exist, equal and missing scores, regions, and a few numbers
 * that are not finite or move a box out of the picture. */
static void place_candidates(check_case *c, check_random *r)
{
    const float none[] = {-1.f, NAN, INFINITY, 1e9f};
    const float hard[] = {NAN, INFINITY, -INFINITY, 1e6f, -1e6f, 50.f};
    const uint32_t *dim = c->args.prob.dim, columns = dim[FV_ROW_C];
    const uint32_t from = dim[FV_CANDIDATES_FROM];
    for (uint32_t i = 0; c->operand[FV_CANDIDATES_INDEX].kind && i < dim[FV_DIM_ROWS]; i++)
        *check_value(c, FV_CANDIDATES_INDEX, i, 0) = check_below(r, 8) == 0
                                                         ? none[check_below(r, 4)]
                                                         : (float)check_below(r, from * columns);
    for (uint32_t i = 0; i < from; i++) {
        for (uint32_t k = 0; k < columns; k++)
            if (check_below(r, 5) == 0)
                *check_value(c, FV_CANDIDATES_SCORE, i, k) =
                    check_below(r, 2) ? NAN : 0.25f * (float)check_below(r, 3);
        for (uint32_t k = 0; k < c->operand[FV_CANDIDATES_DELTA].cols; k++)
            if (check_below(r, 24) == 0)
                *check_value(c, FV_CANDIDATES_DELTA, i, k) = hard[check_below(r, 6)];
        if (c->operand[FV_CANDIDATES_REGION].kind)
            place_region(c, r, FV_CANDIDATES_REGION, i);
    }
}

/* Returns the number of the score that row `row` is made of, or -1. */
static int64_t score_of(const check_case *c, uint32_t row)
{
    const uint32_t columns = c->args.prob.dim[FV_ROW_C];
    int64_t best = -1;
    if (c->operand[FV_CANDIDATES_INDEX].kind) {
        const double at = check_at(c, FV_CANDIDATES_INDEX, row, 0);
        return at >= 0 && at < (double)columns * c->args.prob.dim[FV_CANDIDATES_FROM] ? (int64_t)at
                                                                                      : -1;
    }
    if (!(c->args.prob.flags & FV_FLAG_LARGEST))
        return row;
    for (uint32_t k = 0; k < columns; k++) {
        const double x = check_at(c, FV_CANDIDATES_SCORE, row, k);
        if (!isnan(x) && (best < 0 || x > check_at(c, FV_CANDIDATES_SCORE, row, (uint32_t)best)))
            best = k;
    }
    return best < 0 ? -1 : (int64_t)row * columns + best;
}

static void candidates_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_region_coder *k = c->args.table;
    const uint32_t *dim = c->args.prob.dim, columns = dim[FV_ROW_C];
    const int64_t number = score_of(c, row);
    const bool of_region = c->operand[FV_CANDIDATES_REGION].kind != 0;
    for (uint32_t i = 0; i < FV_REGION_COLUMNS; i++)
        want[i] = allowed[i] = 0;
    want[FV_REGION_CLASS] = -1;
    if (number < 0)
        return;
    const uint32_t from = (uint32_t)number / columns, column = (uint32_t)number % columns;
    const uint32_t part = dim[FV_CANDIDATES_DELTAS] > 1 ? 4 * column : 0;
    const double score = check_at(c, FV_CANDIDATES_SCORE, from, column);
    double box[4], error[4];
    bool good = score > c->args.f[2] &&
                (!of_region || check_at(c, FV_CANDIDATES_REGION, from, FV_REGION_CLASS) >= 0);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t width = of_region ? 1 : c->args.u[0], cell = i ? from / width : from % width;
        double edge[2], delta[2];
        for (uint32_t e = 0; e < 2; e++) {
            edge[e] = of_region ? check_at(c, FV_CANDIDATES_REGION, from, i + 2 * e)
                                : (double)k->anchor[column][i + 2 * e] + (double)k->stride * cell;
            delta[e] = check_at(c, FV_CANDIDATES_DELTA, from, part + i + 2 * e) *
                           (double)k->std[i + 2 * e] +
                       (double)k->mean[i + 2 * e];
        }
        const double side = edge[1] - edge[0], most = -log(0.016);
        const double grow = isnan(delta[1]) ? NAN : fmin(most, fmax(-most, delta[1]));
        const double centre = (edge[0] + edge[1]) / 2 + side * delta[0];
        const double half = side * exp(grow) / 2;
        for (uint32_t e = 0; e < 2; e++) {
            const double at = e ? centre + half : centre - half;
            box[i + 2 * e] = at < 0 ? 0 : at > (double)c->args.f[i] ? (double)c->args.f[i] : at;
            error[i + 2 * e] = 16 * FLT_EPSILON *
                               (fabs(edge[0]) + fabs(edge[1]) + fabs(side * delta[0]) +
                                fabs(half) * (1 + fabs(grow)));
        }
        good = good && isfinite(box[i]) && isfinite(box[i + 2]) && half >= 0 &&
               (c->args.f[3] < 0 || box[i + 2] - box[i] > (double)c->args.f[3]);
    }
    if (!good)
        return;
    for (uint32_t i = 0; i < 4; i++) {
        want[i] = box[i];
        allowed[i] = fmin(error[i], c->args.f[i % 2]); /* both results are in the picture */
    }
    want[FV_REGION_SCORE] = score;
    want[FV_REGION_CLASS] = of_region ? column : c->args.u[1];
}

/* ---- suppression ---- */

static bool make_suppress(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, gap;
        float threshold;
        bool fine; /* coordinates are not whole numbers */
    } sizes[] = {{1, 1, 0, 0.5f, false},    {5, 3, 1, 0.5f, false},    {10, 40, 0, 0.25f, false},
                 {7, 100, 2, 0.75f, false}, {50, 90, 0, 0.f, false},   {33, 300, 0, 0.7f, true},
                 {64, 64, 3, 1.f, false},   {100, 500, 0, 0.5f, true}, {300, 1200, 0, 0.7f, true}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_SUPPRESS_FROM] = sizes[index].from;
    c->args.f[0] = sizes[index].threshold;
    c->args.u[3] = sizes[index].fine;
    check_matrix(c, FV_SUPPRESS_IN, CHECK_BASE, sizes[index].from, FV_REGION_COLUMNS,
                 sizes[index].gap);
    check_matrix(c, FV_SUPPRESS_OUT, CHECK_ROW, sizes[index].rows, FV_REGION_COLUMNS,
                 sizes[index].gap);
    c->align = sizes[index].rows;
    c->bench = sizes[index].from == 1200;
    return true;
}

/* Draws boxes, some of which are equal, touch, or have no area; equal scores; and missing rows.
 * Whole coordinates make overlaps that equal the threshold exactly. */
static void place_rivals(check_case *c, check_random *r)
{
    const uint32_t parts = c->args.u[3] ? 997 : 1;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_SUPPRESS_FROM]; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const float low = (float)check_below(r, 12 * parts) / (float)parts;
            *check_value(c, FV_SUPPRESS_IN, i, k) = low;
            *check_value(c, FV_SUPPRESS_IN, i, k + 2) =
                low + (float)check_below(r, 9 * parts) / (float)parts;
        }
        *check_value(c, FV_SUPPRESS_IN, i, FV_REGION_SCORE) = 0.1f * (float)check_below(r, 20);
        *check_value(c, FV_SUPPRESS_IN, i, FV_REGION_CLASS) =
            (float)check_below(r, 5) * 0.375f - 0.5f;
    }
}

static double overlap_of(const check_case *c, uint32_t i, uint32_t k)
{
    double both = 1, area[2] = {1, 1};
    for (uint32_t n = 0; n < 2; n++) {
        const double a[2] = {check_at(c, FV_SUPPRESS_IN, i, n),
                             check_at(c, FV_SUPPRESS_IN, i, n + 2)};
        const double b[2] = {check_at(c, FV_SUPPRESS_IN, k, n),
                             check_at(c, FV_SUPPRESS_IN, k, n + 2)};
        both *= fmax(0, fmin(a[1], b[1]) - fmax(a[0], b[0]));
        area[0] *= a[1] - a[0];
        area[1] *= b[1] - b[0];
    }
    return both > 0 ? both / (area[0] + area[1] - both) : 0;
}

/* Marks what each row of the input becomes: the row of the output, or -1. All regions are sorted
 * first. */
static void suppress_all(check_case *c)
{
    const uint32_t from = c->args.prob.dim[FV_SUPPRESS_FROM], most = c->args.prob.dim[FV_DIM_ROWS];
    uint32_t *order = malloc((from + 1) * sizeof *order), n = 0, kept = 0;
    if (!order)
        abort();
    for (uint32_t i = 0; i < from; i++) {
        uint32_t at = n;
        if (check_at(c, FV_SUPPRESS_IN, i, FV_REGION_CLASS) < 0)
            continue;
        for (; at > 0 && check_at(c, FV_SUPPRESS_IN, order[at - 1], FV_REGION_SCORE) <
                             check_at(c, FV_SUPPRESS_IN, i, FV_REGION_SCORE);
             at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (uint32_t i = 0; i < n && kept < most; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < kept; k++)
            covered |= check_at(c, FV_SUPPRESS_IN, order[k], FV_REGION_CLASS) ==
                           check_at(c, FV_SUPPRESS_IN, order[i], FV_REGION_CLASS) &&
                       overlap_of(c, order[k], order[i]) > (double)c->args.f[0];
        if (!covered)
            order[kept++] = order[i];
    }
    memmove(order + 1, order, kept * sizeof *order); /* `order` has space for one more */
    order[0] = kept;
    free(c->definition);
    c->definition = order;
}

static void suppress_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *order = c->definition;
    for (uint32_t i = 0; i < FV_REGION_COLUMNS; i++) {
        want[i] = row < order[0] ? check_at(c, FV_SUPPRESS_IN, order[1 + row], i)
                                 : -(double)(i == FV_REGION_CLASS);
        allowed[i] = 0;
    }
}

static void release(check_case *c)
{
    free(c->definition);
}

/* ---- samples ---- */

static const fv_roi_level levels[] = {{40, 30, 0.25f, 0.f},
                                      {20, 15, 0.125f, 400.f},
                                      {10, 8, 0.0625f, 1600.f},
                                      {1, 1, 0.0078125f, 6400.f}};

static bool make_roi_align(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t regions, channels, size, levels, gap;
    } sizes[] = {{1, 1, 1, 1, 0},  {3, 16, 7, 2, 1}, {9, 5, 2, 4, 0},
                 {7, 33, 3, 3, 2}, {4, 8, 14, 4, 0}, {30, 256, 7, 4, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t regions = sizes[index].regions, size = sizes[index].size;
    const uint32_t channels = sizes[index].channels, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = regions * size * size;
    c->args.prob.dim[FV_ROW_C] = channels;
    c->args.prob.dim[FV_ROI_SIZE] = size;
    c->args.prob.dim[FV_ROI_REGIONS] = regions;
    c->args.prob.dim[FV_ROI_COUNT] = sizes[index].levels;
    c->args.table = levels;
    check_matrix(c, FV_ROI_REGION, CHECK_BASE, regions, FV_REGION_COLUMNS, gap);
    for (uint32_t l = 0; l < sizes[index].levels; l++)
        check_matrix(c, FV_ROI_LEVEL + (int)l, CHECK_BASE, levels[l].width * levels[l].height,
                     channels, gap);
    check_matrix(c, FV_ROI_OUT, CHECK_ROW, regions * size * size, channels, gap);
    c->bench = regions == 30;
    return true;
}

/* Draws regions inside the picture and beyond its edges; some have no area, and some are large. */
static void place_rois(check_case *c, check_random *r)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROI_REGIONS]; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const float low = 0.125f * ((float)check_below(r, 1400) - 100.f);
            const uint32_t most = check_below(r, 3) ? 200 : 1600;
            *check_value(c, FV_ROI_REGION, i, k) = low;
            *check_value(c, FV_ROI_REGION, i, k + 2) =
                low + 0.125f * (float)check_below(r, check_below(r, 6) ? most : 1);
        }
        *check_value(c, FV_ROI_REGION, i, FV_REGION_CLASS) = (float)check_below(r, 7) - 1.f;
    }
}

static void roi_align_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, size = dim[FV_ROI_SIZE], channels = dim[FV_ROW_C];
    const uint32_t region = row / (size * size), cell = row % (size * size);
    double edge[4];
    for (uint32_t i = 0; i < 4; i++)
        edge[i] = check_at(c, FV_ROI_REGION, region, i);
    uint32_t at = 0;
    for (uint32_t l = 1; l < dim[FV_ROI_COUNT]; l++)
        if ((edge[2] - edge[0]) * (edge[3] - edge[1]) >= (double)levels[l].least)
            at = l;
    const fv_roi_level *l = &levels[at];
    const uint32_t extent[2] = {l->width, l->height}, part[2] = {cell % size, cell / size};
    double bin[2], count[2], first[2];
    for (int i = 0; i < 2; i++) {
        bin[i] = (edge[i + 2] - edge[i]) * (double)l->scale / size;
        count[i] = ceil(bin[i]);
        first[i] = edge[i] * (double)l->scale - 0.5 + part[i] * bin[i];
    }
    for (uint32_t n = 0; n < channels; n++)
        want[n] = allowed[n] = 0;
    if (check_at(c, FV_ROI_REGION, region, FV_REGION_CLASS) < 0 || !(bin[0] > 0 && bin[1] > 0))
        return;
    for (uint32_t s = 0; s < (uint32_t)(count[0] * count[1]); s++) {
        const double number[2] = {s % (uint32_t)count[0], s / (uint32_t)count[0]};
        double place[2];
        bool inside = true;
        for (int i = 0; i < 2; i++) {
            place[i] = first[i] + (number[i] + 0.5) * bin[i] / count[i];
            inside = inside && place[i] >= -1 && place[i] <= extent[i];
            place[i] = fmin(fmax(place[i], 0), extent[i] - 1.);
        }
        if (!inside)
            continue;
        const double error =
            8 * FLT_EPSILON * (place[0] + place[1] + fabs(first[0]) + fabs(first[1]) + 4);
        for (int k = 0; k < 4; k++) {
            const double x = floor(place[0]) + k % 2, y = floor(place[1]) + k / 2;
            const double weight = fmax(0, 1 - fabs(x - place[0])) * fmax(0, 1 - fabs(y - place[1]));
            if (x > extent[0] - 1. || y > extent[1] - 1.)
                continue;
            for (uint32_t n = 0; n < channels; n++) {
                const double v =
                    check_at(c, FV_ROI_LEVEL + (int)at, (uint32_t)y * l->width + (uint32_t)x, n);
                want[n] += weight * v / (count[0] * count[1]);
                allowed[n] += (error + weight * FLT_EPSILON * (8 + count[0] * count[1])) * fabs(v) /
                              (count[0] * count[1]);
            }
        }
    }
    for (uint32_t n = 0; n < channels; n++)
        allowed[n] += FLT_MIN;
}

/* ---- masks ---- */

static bool make_class_mask(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t regions, cells, classes, gap;
        bool added;
    } sizes[] = {{1, 1, 1, 0, false},
                 {3, 4, 2, 1, false},
                 {5, 9, 33, 0, true},
                 {2, 49, 1, 2, true},
                 {10, 784, 80, 0, false}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].regions * sizes[index].cells, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = sizes[index].classes;
    c->args.prob.dim[FV_CLASS_MASK_CELLS] = sizes[index].cells;
    c->args.prob.dim[FV_CLASS_MASK_REGIONS] = sizes[index].regions;
    c->args.f[0] = sizes[index].added ? 1.f / 3 : 1.f;
    check_matrix(c, FV_CLASS_MASK_IN, CHECK_ROW, rows, sizes[index].classes, gap);
    check_matrix(c, FV_CLASS_MASK_REGION, CHECK_BASE, sizes[index].regions, FV_REGION_COLUMNS, gap);
    if (sizes[index].added)
        check_matrix(c, FV_CLASS_MASK_RES, CHECK_ROW, rows, 1, gap);
    check_matrix(c, FV_CLASS_MASK_OUT, CHECK_ROW, rows, 1, gap);
    c->operand[FV_CLASS_MASK_IN].huge = 80.f;
    c->in_place = index == 3 ? FV_CLASS_MASK_RES : -1;
    c->bench = rows == 7840;
    return true;
}

/* Draws classes, of which a few do not exist. */
static void place_classes(check_case *c, check_random *r)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_CLASS_MASK_REGIONS]; i++)
        *check_value(c, FV_CLASS_MASK_REGION, i, FV_REGION_CLASS) =
            (float)check_below(r, c->args.prob.dim[FV_ROW_C] + 2) - 1.f;
}

static void class_mask_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, classes = dim[FV_ROW_C];
    const double k =
        check_at(c, FV_CLASS_MASK_REGION, row / dim[FV_CLASS_MASK_CELLS], FV_REGION_CLASS);
    const double res =
        c->operand[FV_CLASS_MASK_RES].kind ? check_at(c, FV_CLASS_MASK_RES, row, 0) : 0;
    double part = 0, x = 0;
    if (k >= 0 && (classes == 1 || k < classes)) {
        x = check_at(c, FV_CLASS_MASK_IN, row, classes == 1 ? 0 : (uint32_t)k);
        part = (double)c->args.f[0] / (1 + exp(-x));
    }
    *want = res + part;
    *allowed = check_allowed(4, fabs(res) + part) * (1 + fabs(x)) + FLT_MIN;
}

const check_op check_candidates = {
    .make = make_candidates, .prepare = place_candidates, .oracle = candidates_oracle};
const check_op check_suppress = {.make = make_suppress,
                                 .prepare = place_rivals,
                                 .define = suppress_all,
                                 .oracle = suppress_oracle,
                                 .release = release};
const check_op check_roi_align = {
    .make = make_roi_align, .prepare = place_rois, .oracle = roi_align_oracle};
const check_op check_class_mask = {
    .make = make_class_mask, .prepare = place_classes, .oracle = class_mask_oracle};
