/* run_overlay.c: what was found in a frame, drawn on the photograph: depth in colours, masks with
 * their outlines, boxes, key points with the bones between them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/picture/draw.h"
#include "cli/run/runner.h"

/* Boxes and points with a lower score are not drawn. */
static bool is_drawn(const run_state *r, float score)
{
    return (double)score >= (r->score > 0 ? r->score : RUN_SCORE);
}

bool run_overlays(const run_state *r)
{
    return r->overlay &&
           (r->depth.wanted || r->masks.wanted || r->boxes.wanted || r->points.wanted);
}

/* In its own pixels: of a frame that was normalised already as the model sees it. */
static int photograph(cli_image *out, const run_state *r, const fovea_frame *frame)
{
    const size_t bytes = run_pixels(r) * 3;
    if (r->format == FOVEA_FORMAT_PLANES_F32)
        return run_seen(out, r, frame);
    *out = (cli_image){r->width, r->height, cli_alloc(bytes, 1)};
    memcpy(out->rgb, frame->pixels[0], bytes);
    return CLI_OK;
}

static void draw_depth(const draw_pen *p, const run_state *r)
{
    const colour_map *map = r->depth.map ? r->depth.map : colour_map_find("turbo");
    for (uint32_t y = 0; y < p->on->height; y++)
        for (uint32_t x = 0; x < p->on->width; x++) {
            uint8_t rgb[3];
            if (run_depth_colour(rgb, &r->depth, (size_t)y * p->on->width + x, map))
                draw_blend(p->on, x, y, rgb, 0.7);
        }
}

/* "cat 0.93", in letters that there are. */
static char *caption(const run_state *r, uint32_t label, float score)
{
    const char *name = fovea_model_label(r->s.model, label);
    return name ? cli_text("%.40s %.2f", name, (double)score)
                : cli_text("class %u %.2f", label, (double)score);
}

static void write_label(const draw_pen *p, const run_state *r, double x, double y,
                        const uint8_t rgb[3], uint32_t label, float score)
{
    char *text = caption(r, label, score);
    draw_label(p, x, y, rgb, text);
    free(text);
}

/* ---- masks ---- */

/* Whether another mask, or none, is within the width of a line. */
static bool at_the_border(const run_state *r, const draw_pen *p, uint32_t x, uint32_t y)
{
    const uint16_t *map = r->masks.map, here = map[(size_t)y * r->width + x];
    for (uint32_t d = 1; d <= p->line; d++)
        if ((x >= d && map[(size_t)y * r->width + x - d] != here) ||
            (x + d < r->width && map[(size_t)y * r->width + x + d] != here) ||
            (y >= d && map[(size_t)(y - d) * r->width + x] != here) ||
            (y + d < r->height && map[(size_t)(y + d) * r->width + x] != here))
            return true;
    return false;
}

/* The pixel of a mask that is nearest to the middle of them all. */
static void middle(double at[2], const run_state *r, size_t i)
{
    double sum[2] = {0}, n = 0, best = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t y = 0; y < r->height; y++)
            for (uint32_t x = 0; x < r->width; x++) {
                if (r->masks.map[(size_t)y * r->width + x] != i + 1)
                    continue;
                const double away = hypot(x - sum[0] / n, y - sum[1] / n);
                if (pass == 0) {
                    sum[0] += x;
                    sum[1] += y;
                    n++;
                } else if (away < best) {
                    best = away;
                    at[0] = x;
                    at[1] = y;
                }
            }
}

static void draw_masks(const draw_pen *p, const run_state *r)
{
    for (uint32_t y = 0; y < r->height; y++)
        for (uint32_t x = 0; x < r->width; x++) {
            const uint16_t mask = r->masks.map[(size_t)y * r->width + x];
            uint8_t rgb[3];
            if (!mask)
                continue;
            colour_of_instance(rgb, mask - 1u);
            draw_blend(p->on, x, y, rgb, at_the_border(r, p, x, y) ? 1 : 0.5);
        }
    for (size_t i = 0; i < r->masks.count; i++) {
        const fovea_mask *m = &r->masks.found[i];
        uint8_t rgb[3];
        double at[2] = {(double)m->x1, (double)m->y1};
        middle(at, r, i);
        colour_of_instance(rgb, i);
        const double half = 0.5 * 6 * p->dot * 12; /* of a usual label */
        write_label(p, r, at[0] - half, at[1] + 5.5 * p->dot, rgb, m->label, m->score);
    }
}

/* ---- boxes ---- */

/* Returns how many there were to draw. */
static size_t draw_boxes(const draw_pen *p, const run_state *r)
{
    size_t drawn = 0;
    for (size_t i = r->boxes.count; i-- > 0;) { /* the best on top */
        const fovea_detection *d = &r->boxes.found[i];
        double b[4];
        uint8_t rgb[3];
        if (!is_drawn(r, d->score))
            continue;
        cli_place_box(b, d, r->width, r->height);
        colour_of_instance(rgb, d->label);
        draw_box(p, b[0], b[1], b[0] + b[2], b[1] + b[3], rgb);
        write_label(p, r, b[0], b[1], rgb, d->label, d->score);
        drawn++;
    }
    return drawn;
}

/* ---- key points ---- */

/* Of COCO's 17 points, from one to the next: legs and hips, trunk, arms, head. */
static const uint8_t bones[][2] = {{15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11},
                                   {6, 12},  {5, 6},   {5, 7},   {7, 9},   {6, 8},   {8, 10},
                                   {1, 2},   {0, 1},   {0, 2},   {1, 3},   {2, 4}};
enum { PEOPLE = 17 };

/* Of one person; returns how many were drawn. */
static size_t draw_pose(const draw_pen *p, const run_state *r, const fovea_keypoint *found)
{
    const size_t count = r->points.count;
    size_t drawn = 0;
    uint8_t rgb[3];
    for (size_t i = 0; count == PEOPLE && i < sizeof bones / sizeof *bones; i++) {
        const fovea_keypoint *a = &found[bones[i][0]], *b = &found[bones[i][1]];
        if (!is_drawn(r, a->score) || !is_drawn(r, b->score))
            continue;
        colour_of_instance(rgb, i);
        const draw_pen thick = {p->on, 2 * p->line, p->dot};
        draw_line(&thick, (double)a->x, (double)a->y, (double)b->x, (double)b->y, rgb);
    }
    for (size_t k = 0; k < count; k++) {
        if (!is_drawn(r, found[k].score))
            continue;
        colour_of_instance(rgb, k);
        draw_disc(p, (double)found[k].x, (double)found[k].y, 2.0 * p->line, rgb);
        drawn++;
    }
    return drawn;
}

static size_t draw_points(const draw_pen *p, const run_state *r)
{
    size_t drawn = 0;
    for (size_t i = 0; i < r->points.people; i++)
        drawn += draw_pose(p, r, r->points.found + i * r->points.count);
    return drawn;
}

/* Reports how many objects were drawn: with low scores the picture may be unchanged. */
static void tell_drawn(const run_state *r, const char *name, size_t drawn, size_t all,
                       const char *what)
{
    if (drawn < all)
        cli_tell("%s: %zu of %zu %s drawn, --score %.2g", name, drawn, all, what,
                 r->score > 0 ? r->score : RUN_SCORE);
}

int run_overlay(run_state *r, const char *input, const fovea_frame *frame)
{
    cli_image picture = {0};
    int code = photograph(&picture, r, frame);
    char *name = run_picture_name(r, r->overlay, input);
    if (!code) {
        const draw_pen pen = draw_pen_for(&picture);
        if (r->depth.wanted)
            draw_depth(&pen, r);
        if (r->masks.wanted)
            draw_masks(&pen, r);
        if (r->boxes.wanted)
            tell_drawn(r, name, draw_boxes(&pen, r), r->boxes.count, "boxes");
        if (r->points.wanted)
            tell_drawn(r, name, draw_points(&pen, r), r->points.people * r->points.count,
                       "key points");
    }
    CLI_THEN(code, cli_image_write_png(name, &picture));
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}
