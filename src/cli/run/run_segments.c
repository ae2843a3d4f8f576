/* run_segments.c: segmentation logits, or masks and their classes, as pictures: the class of every
 * pixel, and an overlay. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

static int write_overlay(run_state *r, const char *path, const fovea_frame *frame,
                         const uint8_t *class)
{
    cli_image picture;
    int code = run_seen(&picture, r, frame);
    for (size_t i = 0; !code && i < (size_t)picture.width * picture.height; i++) {
        uint8_t rgb[3];
        colour_of_class(rgb, class[i]);
        for (int c = 0; c < 3; c++)
            picture.rgb[3 * i + c] = (uint8_t)((picture.rgb[3 * i + c] + rgb[c] + 1) / 2);
    }
    char *name = run_picture_name(r, r->overlay, path);
    CLI_THEN(code, cli_image_write_png(name, &picture));
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}

static int write_labels(run_state *r, const char *path, const uint8_t *class)
{
    uint8_t palette[3 * RUN_SEGMENTS];
    const uint32_t classes = r->s.info.segments;
    for (uint32_t i = 0; i < classes; i++)
        colour_of_class(palette + 3 * i, i);
    char *name = run_picture_name(r, r->labels, path);
    int code = cli_indices_write_png(name, class, r->info.width, r->info.height, palette, classes);
    run_wrote(r, name);
    return code;
}

int run_segment(run_state *r, const char *path, const fovea_frame *frame)
{
    const size_t pixels = (size_t)r->info.width * r->info.height;
    uint8_t *class = cli_alloc(pixels, sizeof *class);
    uint16_t *map = cli_alloc(pixels, sizeof *map);
    int code =
        cli_check(fovea_class_map(r->plan, r->outs, r->n, FOVEA_EXTENT_PICTURE, map, pixels));
    memset(r->share, 0, sizeof r->share);
    for (size_t i = 0; i < pixels; i++) {
        class[i] = (uint8_t)map[i];
        r->share[class[i]] += 1.0 / (double)pixels;
    }
    free(map);
    if (!code)
        code = r->labels ? write_labels(r, path, class) : CLI_OK;
    if (!code && r->overlay && !run_overlays(r))
        code = write_overlay(r, path, frame, class);
    free(class);
    return code;
}
