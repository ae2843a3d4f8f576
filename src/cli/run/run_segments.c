/* run_segments.c: segmentation logits, or masks and their classes, as pictures: the class of every
 * pixel, and an overlay. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/segments.h"
#include "cli/run/runner.h"

/* The colours of PASCAL VOC: the bits of the class, from the lowest on, become the highest bits of
 * red, green and blue in turn. */
static void colour(uint8_t rgb[3], uint32_t class)
{
    memset(rgb, 0, 3);
    for (int bit = 7; class; bit--, class >>= 3)
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(rgb[c] | (class >> c & 1) << bit);
}

static int write_overlay(run_state *r, const char *path, const fovea_frame *frame,
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
        colour(palette + 3 * i, i);
    char *name = run_picture_name(r, r->labels, path);
    int code = cli_indices_write_png(name, class, r->info.width, r->info.height, palette, classes);
    run_wrote(r, name);
    return code;
}

int run_segment(run_state *r, const char *path, const fovea_frame *frame)
{
    const size_t pixels = (size_t)r->info.width * r->info.height;
    uint8_t *class = cli_alloc(pixels, sizeof *class);
    const run_series *s = r->segments;
    const segments_grid grid = {s->info.grid_width, s->info.grid_height, (uint32_t)s->columns};
    const segments_place place = {0, 0, r->info.width, r->info.height};
    const uint32_t classes = r->s.info.segments;
    float *room = cli_alloc(
        r->mask_classes ? segments_masks_room(&grid, classes) : segments_room(&grid), sizeof *room);
    if (r->mask_classes)
        segments_classify_masks(class, r->info.width, r->info.height, run_patches(s), &grid, &place,
                                r->mask_classes->frame, classes, room);
    else
        segments_classify(class, r->info.width, r->info.height, run_patches(s), &grid, &place,
                          room);
    free(room);
    memset(r->share, 0, sizeof r->share);
    for (size_t i = 0; i < pixels; i++)
        r->share[class[i]] += 1.0 / (double)pixels;
    int code = r->labels ? write_labels(r, path, class) : CLI_OK;
    if (!code && r->overlay)
        code = write_overlay(r, path, frame, class);
    free(class);
    return code;
}
