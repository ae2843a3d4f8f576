/* ref_regions.h: functions and tables of the ops of detectors with regions: CANDIDATES, SUPPRESS
 * and ROI_ALIGN. */
#ifndef FOVEA_SRC_REF_REGIONS_H
#define FOVEA_SRC_REF_REGIONS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "ops/contracts/regions.h"
#include "ops/kernel.h"

/* ---- CANDIDATES ---- */

/* The table of CANDIDATES. `anchor` has x1, y1, x2, y2 of each column's anchor in the first cell.
 */
typedef struct fv_region_coder {
    float mean[4], std[4];
    float stride; /* distance of adjacent cells' anchors */
    float anchor[][4];
} fv_region_coder;

/* The natural logarithm of the largest factor by which a side is scaled, -log(16 / 1000). */
#define FV_REGION_GROWTH 4.135166556742356f

/* Returns the column of the largest of n scores, the first of equal ones, or n if all are NaN. */
static inline uint32_t fv_region_best(const float *score, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (score[i] == score[i] && (best == n || score[i] > score[best]))
            best = i;
    return best;
}

/* Moves and scales a box by four numbers of the model, and clips it to the picture, width x height.
 * Returns false if the result is not finite, or if a side is not longer than `least`, unless
 * `least` is negative. */
static inline bool fv_region_decode(float out[4], const fv_region_coder *k, const float box[4],
                                    const float delta[4], const float f[4])
{
    bool good = true;
    for (int i = 0; i < 2; i++) {
        const float side = box[i + 2] - box[i], end = f[i];
        const float move = delta[i] * k->std[i] + k->mean[i];
        const float wanted = delta[i + 2] * k->std[i + 2] + k->mean[i + 2];
        const float grow = wanted < -FV_REGION_GROWTH  ? -FV_REGION_GROWTH
                           : wanted > FV_REGION_GROWTH ? FV_REGION_GROWTH
                                                       : wanted;
        const float centre = (box[i] + box[i + 2]) * 0.5f + side * move;
        const float half = 0.5f * (side * expf(grow)), low = centre - half, high = centre + half;
        out[i] = low < 0.f ? 0.f : low > end ? end : low;
        out[i + 2] = high < 0.f ? 0.f : high > end ? end : high;
        good = good && isfinite(out[i]) && isfinite(out[i + 2]) && half >= 0.f &&
               (f[3] < 0.f || out[i + 2] - out[i] > f[3]);
    }
    return good;
}

/* Writes the region of score number `number` to `out`. */
static inline void fv_region_candidate(float *out, const fv_args *a, const fv_call *c,
                                       uint32_t number)
{
    const fv_region_coder *k = a->table;
    const uint32_t *dim = a->prob.dim, width = dim[1];
    const uint32_t row = number / width, column = number % width;
    const float *score = (const float *)c->p[FV_CANDIDATES_SCORE] +
                         (size_t)row * a->ld[FV_CANDIDATES_SCORE] + column;
    const float *delta = (const float *)c->p[FV_CANDIDATES_DELTA] +
                         (size_t)row * a->ld[FV_CANDIDATES_DELTA] +
                         (dim[FV_CANDIDATES_DELTAS] > 1 ? 4 * (size_t)column : 0);
    const float *region = c->p[FV_CANDIDATES_REGION];
    float box[4];
    if (region)
        region += (size_t)row * a->ld[FV_CANDIDATES_REGION];
    for (int i = 0; i < 4; i++)
        box[i] = region ? region[i]
                        : k->anchor[column][i] +
                              k->stride * (float)(i % 2 ? row / a->u[0] : row % a->u[0]);
    memset(out, 0, FV_REGION_COLUMNS * sizeof *out);
    out[FV_REGION_SCORE] = *score;
    out[FV_REGION_CLASS] = region ? (float)column : (float)a->u[1];
    const bool there = !region || region[FV_REGION_CLASS] >= 0.f;
    if (there && *score > a->f[2] && fv_region_decode(out, k, box, delta, a->f))
        return;
    memset(out, 0, FV_REGION_COLUMNS * sizeof *out);
    out[FV_REGION_CLASS] = -1.f;
}

/* Computes row r of a call of CANDIDATES. */
static inline void fv_region_row(const fv_args *a, const fv_call *c, uint32_t r)
{
    const uint32_t width = a->prob.dim[1], all = a->prob.dim[FV_CANDIDATES_FROM] * width;
    const float *index = c->p[FV_CANDIDATES_INDEX];
    float *out = (float *)c->p[FV_CANDIDATES_OUT] + (size_t)r * a->ld[FV_CANDIDATES_OUT];
    uint32_t number = c->row0 + r;
    if (index) {
        const float x = index[(size_t)r * a->ld[FV_CANDIDATES_INDEX]];
        number = x >= 0.f && x < (float)all ? (uint32_t)x : all;
    } else if (a->prob.flags & FV_FLAG_LARGEST) {
        const float *score =
            (const float *)c->p[FV_CANDIDATES_SCORE] + (size_t)number * a->ld[FV_CANDIDATES_SCORE];
        const uint32_t best = fv_region_best(score, width);
        number = best < width ? number * width + best : all;
    }
    if (number < all) {
        fv_region_candidate(out, a, c, number);
        return;
    }
    memset(out, 0, FV_REGION_COLUMNS * sizeof *out);
    out[FV_REGION_CLASS] = -1.f;
}

/* ---- SUPPRESS ---- */

/* Returns whether region i of `in` precedes region k. */
static inline bool fv_region_before(const float *in, size_t ld, uint32_t i, uint32_t k)
{
    const float x = in[i * ld + FV_REGION_SCORE], y = in[k * ld + FV_REGION_SCORE];
    return x > y || (!(x < y) && i < k);
}

static inline float fv_region_area(const float *box)
{
    return (box[2] - box[0]) * (box[3] - box[1]);
}

/* Returns whether two boxes overlap by more than a threshold: intersection over union. */
static inline bool fv_region_overlaps(const float *a, const float *b, float threshold)
{
    const float left = a[0] > b[0] ? a[0] : b[0], top = a[1] > b[1] ? a[1] : b[1];
    const float right = a[2] < b[2] ? a[2] : b[2], bottom = a[3] < b[3] ? a[3] : b[3];
    const float wide = right > left ? right - left : 0.f, high = bottom > top ? bottom - top : 0.f;
    const float both = wide * high;
    return both > threshold * (fv_region_area(a) + fv_region_area(b) - both);
}

/* ---- ROI_ALIGN ---- */

/* A level of ROI_ALIGN. */
typedef struct fv_roi_level {
    uint32_t width, height;
    float scale; /* cells per pixel */
    float least; /* least area, in pixels, of a region that is sampled from this level; the first
                    level also has smaller ones */
} fv_roi_level;

#define FV_ROI_SAMPLES 1024 /* most samples along a side of a cell */

/* The samples of one side of a cell: position i is first + (i + 1/2) step. */
typedef struct fv_roi_side {
    float first, step;
    uint32_t count;
} fv_roi_side;

/* Returns the level of a region. */
static inline uint32_t fv_roi_level_of(const fv_roi_level *level, uint32_t levels, const float *box)
{
    const float area = fv_region_area(box);
    uint32_t l = 0;
    while (l + 1 < levels && area >= level[l + 1].least)
        l++;
    return l;
}

/* Returns the samples of cell `cell` of `size` along a side from `low` to `high` pixels. The exact
 * quotient is rounded up, so that every device takes the same number of samples. */
static inline fv_roi_side fv_roi_side_of(float low, float high, float scale, uint32_t size,
                                         uint32_t cell)
{
    const float first = low * scale - 0.5f, side = (high * scale - 0.5f) - first;
    const float cells = side / (float)size;
    if (!(side > 0.f))
        return (fv_roi_side){.count = 0};
    uint32_t n = cells < FV_ROI_SAMPLES ? (uint32_t)cells : FV_ROI_SAMPLES;
    n += n < FV_ROI_SAMPLES && (float)(n * size) < side;
    n -= n > 1 && (float)((n - 1) * size) >= side;
    return (fv_roi_side){first + (float)cell * cells, cells / (float)n, n};
}

/* The two values around a position along one side of a level, and the weight of the second. */
typedef struct fv_roi_between {
    uint32_t low, high;
    float part;
    bool inside;
} fv_roi_between;

static inline fv_roi_between fv_roi_at(const fv_roi_side *s, uint32_t i, uint32_t values)
{
    const float at = s->first + ((float)i + 0.5f) * s->step, last = (float)(values - 1);
    if (!(at >= -1.f && at <= (float)values))
        return (fv_roi_between){.inside = false};
    const float x = at < 0.f ? 0.f : at > last ? last : at;
    const uint32_t low = (uint32_t)x;
    return (fv_roi_between){low, low + 1 < values ? low + 1 : low, x - (float)low, true};
}

#endif
