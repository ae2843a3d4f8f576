/* segments.c: segmentation logits, or masks and their classes, become the class of every pixel. */
#include "cli/common/segments.h"

#include <math.h>

/* Of a grid of `cells` cells stretched to `pixels` pixels from `from` on: the cells before and
 * after the centre of pixel i, and how far it is to the second. */
static void between(uint32_t *first, uint32_t *second, float *part, uint32_t i, uint32_t cells,
                    double from, double pixels)
{
    const double at = fmin(fmax(0, (i + 0.5 - from) * cells / pixels - 0.5), cells - 1);
    *first = (uint32_t)at < cells - 1 ? (uint32_t)at : cells - 1;
    *second = *first + 1 < cells ? *first + 1 : *first;
    *part = (float)(at - *first);
}

/* out[i] = a[i] + part (b[i] - a[i]) */
static void blend(float *out, const float *a, const float *b, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + part * (b[i] - a[i]);
}

size_t segments_room(const segments_grid *grid)
{
    return ((size_t)grid->width + 1) * grid->classes;
}

/* Rows of the grid at the height of pixel row y become one. */
static void blend_rows(float *line, const float *data, const segments_grid *grid,
                       const segments_place *place, uint32_t y)
{
    const size_t row = (size_t)grid->width * grid->classes;
    uint32_t a, b;
    float part;
    between(&a, &b, &part, y, grid->height, place->top, place->height);
    blend(line, data + a * row, data + b * row, part, row);
}

/* Pixel x of such a row. */
static void blend_columns(float *pixel, const float *line, const segments_grid *grid,
                          const segments_place *place, uint32_t x)
{
    const size_t n = grid->classes;
    uint32_t a, b;
    float part;
    between(&a, &b, &part, x, grid->width, place->left, place->width);
    blend(pixel, line + a * n, line + b * n, part, n);
}

static uint8_t largest(const float *score, size_t n)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
        best = score[k] > score[best] ? k : best;
    return (uint8_t)best;
}

void segments_classify(uint8_t *class, uint32_t width, uint32_t height, const float *logits,
                       const segments_grid *grid, const segments_place *place, float *room)
{
    float *line = room, *pixel = room + (size_t)grid->width * grid->classes;
    for (uint32_t y = 0; y < height; y++, class += width) {
        blend_rows(line, logits, grid, place, y);
        for (uint32_t x = 0; x < width; x++) {
            blend_columns(pixel, line, grid, place, x);
            class[x] = largest(pixel, grid->classes);
        }
    }
}

/* ---- masks ---- */

size_t segments_masks_room(const segments_grid *grid, uint32_t classes)
{
    return segments_room(grid) + ((size_t)grid->classes + 1) * classes;
}

/* The probabilities of the first n classes of n + 1. */
static void share_out(float *out, const float *logits, uint32_t n)
{
    float top = logits[n];
    for (uint32_t k = 0; k < n; k++)
        top = fmaxf(top, logits[k]);
    double sum = exp(logits[n] - top);
    for (uint32_t k = 0; k < n; k++)
        sum += exp(logits[k] - top);
    for (uint32_t k = 0; k < n; k++)
        out[k] = (float)(exp(logits[k] - top) / sum);
}

/* Scores of a pixel: over all queries, the mask's probability times those of its classes. */
static void add_up(float *score, const float *mask, const float *share, size_t queries,
                   uint32_t classes)
{
    for (uint32_t k = 0; k < classes; k++)
        score[k] = 0;
    for (size_t q = 0; q < queries; q++, share += classes) {
        const float inside = 1 / (1 + expf(-mask[q]));
        for (uint32_t k = 0; k < classes; k++)
            score[k] += inside * share[k];
    }
}

void segments_classify_masks(uint8_t *class, uint32_t width, uint32_t height, const float *masks,
                             const segments_grid *grid, const segments_place *place,
                             const float *logits, uint32_t classes, float *room)
{
    const size_t queries = grid->classes;
    float *line = room, *pixel = line + grid->width * queries, *share = pixel + queries;
    float *score = share + queries * classes;
    for (size_t q = 0; q < queries; q++)
        share_out(share + q * classes, logits + q * (classes + 1), classes);
    for (uint32_t y = 0; y < height; y++, class += width) {
        blend_rows(line, masks, grid, place, y);
        for (uint32_t x = 0; x < width; x++) {
            blend_columns(pixel, line, grid, place, x);
            add_up(score, pixel, share, queries, classes);
            class[x] = largest(score, classes);
        }
    }
}
