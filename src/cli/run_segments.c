/* run_segments.c: segmentation logits as pictures: the class of every pixel, and an overlay. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

/* The colours of PASCAL VOC: the bits of the class, from the lowest on, become the highest bits of
 * red, green and blue in turn. */
static void colour(uint8_t rgb[3], uint32_t class)
{
    memset(rgb, 0, 3);
    for (int bit = 7; class; bit--, class >>= 3)
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(rgb[c] | (class >> c & 1) << bit);
}

/* Of a grid of `cells` cells stretched to `pixels` pixels: the cells before and after the centre of
 * pixel i, and how far it is to the second. */
static void between(uint32_t *first, uint32_t *second, float *part, uint32_t i, uint32_t cells,
                    uint32_t pixels)
{
    const double at = fmax(0, (i + 0.5) * cells / pixels - 0.5);
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

/* Logits resized bilinearly (torch's align_corners False); the largest wins, the first of equals.
 */
static void classify(uint8_t *class, const run_series *s, uint32_t width, uint32_t height)
{
    const uint32_t gw = s->info.grid_width, gh = s->info.grid_height;
    const size_t n = (size_t)s->columns;
    const float *logits = run_patches(s);
    float *line = cli_alloc(gw * n, sizeof *line), *pixel = cli_alloc(n, sizeof *pixel);
    for (uint32_t y = 0; y < height; y++) {
        uint32_t a, b;
        float part;
        between(&a, &b, &part, y, gh, height);
        blend(line, logits + a * gw * n, logits + b * gw * n, part, gw * n);
        for (uint32_t x = 0; x < width; x++) {
            uint32_t best = 0;
            between(&a, &b, &part, x, gw, width);
            blend(pixel, line + a * n, line + b * n, part, n);
            for (uint32_t k = 1; k < n; k++)
                best = pixel[k] > pixel[best] ? k : best;
            class[(size_t)y * width + x] = (uint8_t)best;
        }
    }
    free(line);
    free(pixel);
}

static int write_overlay(const run_state *r, const char *path, const fovea_frame *frame,
                         const uint8_t *class)
{
    cli_image picture;
    int code = run_seen(&picture, r, frame);
    for (size_t i = 0; !code && i < (size_t)picture.width * picture.height; i++) {
        uint8_t rgb[3];
        colour(rgb, class[i]);
        for (int c = 0; c < 3; c++)
            picture.rgb[3 * i + c] = (uint8_t)((picture.rgb[3 * i + c] + rgb[c] + 1) / 2);
    }
    char *name = run_picture_name(r, r->overlay, path);
    if (!code)
        code = cli_image_write_png(name, &picture);
    free(name);
    cli_image_free(&picture);
    return code;
}

static int write_labels(const run_state *r, const char *path, const uint8_t *class)
{
    uint8_t palette[3 * RUN_SEGMENTS];
    const uint32_t classes = (uint32_t)r->segments->columns;
    for (uint32_t i = 0; i < classes; i++)
        colour(palette + 3 * i, i);
    char *name = run_picture_name(r, r->labels, path);
    int code = cli_indices_write_png(name, class, r->info.width, r->info.height, palette, classes);
    free(name);
    return code;
}

int run_segment(run_state *r, const char *path, const fovea_frame *frame)
{
    const size_t pixels = (size_t)r->info.width * r->info.height;
    uint8_t *class = cli_alloc(pixels, sizeof *class);
    classify(class, r->segments, r->info.width, r->info.height);
    memset(r->share, 0, sizeof r->share);
    for (size_t i = 0; i < pixels; i++)
        r->share[class[i]] += 1.0 / (double)pixels;
    int code = r->labels ? write_labels(r, path, class) : CLI_OK;
    if (!code && r->overlay)
        code = write_overlay(r, path, frame, class);
    free(class);
    return code;
}
