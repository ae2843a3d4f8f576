/* run_segments.c: segmentation logits, or masks and their classes, as pictures: the class of every
 * pixel, and an overlay. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* Classes of a picture's pixels. */
typedef struct classes {
    uint8_t *of_pixel;
    uint32_t width, height;
} classes;

/* `picture`: what they are drawn on, of the same size. */
static int write_overlay(run_state *r, const char *path, const cli_image *picture,
                         const classes *class)
{
    for (size_t i = 0; i < (size_t)picture->width * picture->height; i++) {
        uint8_t rgb[3];
        colour_of_class(rgb, class->of_pixel[i]);
        for (int c = 0; c < 3; c++)
            picture->rgb[3 * i + c] = (uint8_t)((picture->rgb[3 * i + c] + rgb[c] + 1) / 2);
    }
    char *name = run_picture_name(r, r->overlay, path);
    const int code = cli_image_write_png(name, picture);
    run_wrote(r, name);
    return code;
}

static int write_labels(run_state *r, const char *path, const classes *class)
{
    uint8_t palette[3 * RUN_SEGMENTS];
    const uint32_t n = r->s.info.segments;
    for (uint32_t i = 0; i < n; i++)
        colour_of_class(palette + 3 * i, i);
    char *name = run_picture_name(r, r->labels, path);
    int code =
        cli_indices_write_png(name, class->of_pixel, class->width, class->height, palette, n);
    run_wrote(r, name);
    return code;
}

/* Shares and the picture of indices; of `map`, which becomes *out. */
static int count_and_label(classes *out, run_state *r, const char *path, const uint16_t *map)
{
    const size_t pixels = (size_t)out->width * out->height;
    out->of_pixel = cli_alloc(pixels, 1);
    memset(r->share, 0, sizeof r->share);
    for (size_t i = 0; i < pixels; i++) {
        out->of_pixel[i] = (uint8_t)map[i];
        r->share[out->of_pixel[i]] += 1.0 / (double)pixels;
    }
    return r->labels ? write_labels(r, path, out) : CLI_OK;
}

int run_segment(run_state *r, const char *path, const fovea_frame *frame)
{
    classes class = {NULL, r->info.width, r->info.height};
    const size_t pixels = (size_t) class.width * class.height;
    uint16_t *map = cli_alloc(pixels, sizeof *map);
    cli_image picture = {0};
    int code =
        cli_check(fovea_class_map(r->plan, r->outs, r->n, FOVEA_EXTENT_PICTURE, map, pixels));
    CLI_THEN(code, count_and_label(&class, r, path, map));
    if (!code && r->overlay && !run_overlays(r)) {
        code = run_seen(&picture, r, frame);
        CLI_THEN(code, write_overlay(r, path, &picture, &class));
    }
    cli_image_free(&picture);
    free(map);
    free(class.of_pixel);
    return code;
}

int run_segment_whole(run_state *r, const char *path, const run_source *from, const uint16_t *map)
{
    classes class = {NULL, from->width, from->height};
    int code = count_and_label(&class, r, path, map);
    if (!code && r->overlay) {
        const size_t bytes = (size_t) class.width * class.height * 3;
        cli_image picture = {class.width, class.height, cli_alloc(bytes, 1)};
        memcpy(picture.rgb, from->frame.pixels[0], bytes);
        code = write_overlay(r, path, &picture, &class);
        cli_image_free(&picture);
    }
    free(class.of_pixel);
    return code;
}
