/* segments.c: segmentation logits become the class of every pixel. */
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

void segments_classify(uint8_t *class, uint32_t width, uint32_t height, const float *logits,
                       const segments_grid *grid, const segments_place *place, float *room)
{
    const size_t n = grid->classes, row = grid->width * n;
    float *line = room, *pixel = room + row;
    for (uint32_t y = 0; y < height; y++) {
        uint32_t a, b;
        float part;
        between(&a, &b, &part, y, grid->height, place->top, place->height);
        blend(line, logits + a * row, logits + b * row, part, row);
        for (uint32_t x = 0; x < width; x++) {
            uint32_t best = 0;
            between(&a, &b, &part, x, grid->width, place->left, place->width);
            blend(pixel, line + a * n, line + b * n, part, n);
            for (uint32_t k = 1; k < n; k++)
                best = pixel[k] > pixel[best] ? k : best;
            class[(size_t)y * width + x] = (uint8_t)best;
        }
    }
}
