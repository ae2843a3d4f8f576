/* adapt_augment.c: chooses the order of pictures in training, and the crop of each. Both depend
 * only on the seed and the sample number, so that a resumed training needs no other state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapt_data.h"

/* ---- numbers ---- */

/* Returns SplitMix64 of x: a bijection of 64-bit numbers in which every input bit affects all
 * output bits. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the next pseudo-random number in [0, 1). */
static double next(uint64_t *state)
{
    *state = mix(*state);
    return (double)(*state >> 11) * 0x1p-53;
}

/* ---- order ---- */

/* Uses a Feistel network, which permutes 4^half numbers. A result of n or more is permuted again
 * until it is below n, which gives a permutation of the numbers below n. */
size_t adapt_pick(uint64_t seed, size_t n, uint64_t sample)
{
    const uint64_t key = mix(mix(seed) ^ sample / n);
    uint64_t x = sample % n, half = 1;
    while (half < 32 && (UINT64_C(1) << 2 * half) < n)
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            const uint64_t turned = left ^ (mix(key ^ mix(round << 32 ^ right)) & mask);
            left = right;
            right = turned;
        }
        x = left << half | right;
    } while (x >= n);
    return (size_t)x;
}

/* ---- cutting ---- */

typedef struct window {
    uint32_t x, y, width, height;
} window;

static uint32_t side(double length, uint32_t most)
{
    const double rounded = floor(length + 0.5);
    return rounded < 1 ? 1 : rounded > most ? most : (uint32_t)rounded;
}

/* Returns a window with the aspect ratio of the crop and `share` of the largest possible side. at_x
 * and at_y, from 0 to 1, choose its position in the picture. */
static window part(const adapt_policy *p, const dataset_picture *from, double share, double at_x,
                   double at_y)
{
    const double across = (double)from->width / p->width, down = (double)from->height / p->height;
    const double scale = share * (across < down ? across : down);
    window w = {0, 0, side(scale * p->width, from->width), side(scale * p->height, from->height)};
    w.x = (uint32_t)(at_x * (from->width - w.width + 1));
    w.y = (uint32_t)(at_y * (from->height - w.height + 1));
    return w;
}

/* Resizes the pixels of the window with the filter of the model's preprocessing. */
static int resize(uint8_t *rgb, const adapt_policy *p, const dataset_picture *from, const window *w)
{
    const size_t row = (size_t)w->width * 3;
    uint8_t *packed = cli_alloc(w->height, row);
    for (uint32_t y = 0; y < w->height; y++)
        memcpy(packed + y * row, from->rgb + ((size_t)(w->y + y) * from->width + w->x) * 3, row);
    if (w->width == p->width && w->height == p->height) {
        memcpy(rgb, packed, row * w->height);
        free(packed);
        return CLI_OK;
    }
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    rule.resize = FOVEA_RESIZE_EXACT;
    rule.filter = p->filter;
    rule.resize_width = p->width;
    rule.resize_height = p->height;
    const int code = cli_check(
        fovea_preprocess_apply(&rule, packed, w->width, w->height, rgb, p->width, p->height));
    free(packed);
    return code;
}

/* Resizes mask and depth with nearest-neighbour interpolation: classes cannot be averaged, nor can
 * known depths with unknown ones. */
static void resize_truth(const adapt_pixels *out, const adapt_policy *p,
                         const dataset_picture *from, const window *w)
{
    for (uint32_t y = 0; y < p->height; y++) {
        const uint32_t from_y = w->y + (uint32_t)((y + 0.5) * w->height / p->height);
        for (uint32_t x = 0; x < p->width; x++) {
            const uint32_t from_x = w->x + (uint32_t)((x + 0.5) * w->width / p->width);
            const size_t at = (size_t)from_y * from->width + from_x, to = (size_t)y * p->width + x;
            if (from->mask)
                out->mask[to] = from->mask[at];
            if (from->depth)
                out->depth[to] = from->depth[at];
        }
    }
}

/* Mirrors rows from left to right; each pixel has `size` bytes. */
static void turn(uint8_t *pixels, uint32_t width, uint32_t height, size_t size)
{
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = pixels + (size_t)y * width * size;
        for (uint32_t x = 0; x < width / 2; x++)
            for (size_t c = 0; c < size; c++) {
                uint8_t *a = row + x * size + c, *b = row + (width - 1 - x) * size + c;
                const uint8_t kept = *a;
                *a = *b;
                *b = kept;
            }
    }
}

/* Returns the grey value by ITU-R 601, as Pillow's "L". */
static double grey(const uint8_t *rgb)
{
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

/* Changes brightness and saturation, then contrast around the mean grey, and rounds once. */
static void jitter(uint8_t *rgb, size_t pixels, double bright, double contrast, double colour)
{
    double mean = 0;
    for (size_t i = 0; i < pixels; i++)
        mean += grey(rgb + 3 * i);
    mean *= bright / (double)pixels;
    for (size_t i = 0; i < pixels; i++) {
        uint8_t *v = rgb + 3 * i;
        const double own = grey(v);
        for (int c = 0; c < 3; c++) {
            const double turned = bright * (own + colour * (v[c] - own));
            const double out = mean + contrast * (turned - mean);
            v[c] = (uint8_t)(out < 0 ? 0 : out > 255 ? 255 : floor(out + 0.5));
        }
    }
}

int adapt_cut(const adapt_pixels *out, const adapt_policy *p, const dataset_picture *from,
              uint64_t sample, const char *name)
{
    uint64_t state = mix(~mix(p->seed)) ^ mix(sample);
    /* All numbers are drawn even if unused, so that one option does not change the numbers of
     * another. */
    const double size = next(&state), at_x = next(&state), at_y = next(&state);
    const double turned = next(&state), bright = 2 * next(&state) - 1;
    const double contrast = 2 * next(&state) - 1, colour = 2 * next(&state) - 1;
    window w = {0, 0, from->width, from->height};
    if (p->crop == ADAPT_RANDOM)
        w = part(p, from, p->least * pow(p->most / p->least, size), at_x, at_y);
    else if (p->crop == ADAPT_CENTRE)
        w = part(p, from, 1, 0.5, 0.5);
    else if (from->width != p->width || from->height != p->height)
        return cli_fail(CLI_INPUT,
                        "%s has %ux%u pixels, but %ux%u are needed; use --crop centre or random",
                        name, from->width, from->height, p->width, p->height);
    CLI_TRY(resize(out->rgb, p, from, &w));
    if (from->mask || from->depth)
        resize_truth(out, p, from, &w);
    if (turned < p->flip) {
        turn(out->rgb, p->width, p->height, 3);
        if (from->mask)
            turn(out->mask, p->width, p->height, 1);
        if (from->depth)
            turn((uint8_t *)out->depth, p->width, p->height, sizeof *out->depth);
    }
    if (p->jitter > 0)
        jitter(out->rgb, (size_t)p->width * p->height, 1 + p->jitter * bright,
               1 + p->jitter * contrast, 1 + p->jitter * colour);
    return CLI_OK;
}
