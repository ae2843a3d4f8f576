/* run_segments.c: computes the classes of pixels, from segmentation logits or from masks and their
 * classes. It prints each class's share of the picture, and writes pictures of class indices, and
 * of colours over the photograph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/run_scores.h"

/* ---- shares ---- */

typedef struct segments {
    run_score *share; /* shares of the current picture */
    uint32_t n;       /* number of classes that at least one pixel has */
} segments;

/* Requests the outputs that determine the classes of pixels, if the model has them. */
static void choose(run_state *r)
{
    const char *name = cli_segments_output(r->s.model);
    r->segments = name ? run_want(r, name) : NULL;
    if (!name && run_want(r, "class_queries_logits"))
        r->segments = run_want(r, "masks_queries_logits");
}

/* Requests the shares if no file is written and results are printed as text. */
static int want_shares(run_state *r, void *own)
{
    (void)own;
    if (!run_writes(r) && !r->common.json && r->s.info.segments > 0 &&
        r->s.info.segments <= RUN_SEGMENTS)
        choose(r);
    return CLI_OK;
}

/* Sets the size of the class map. Sets *map to a new map in the size that the model sees, or to
 * NULL for a picture in parts, whose map is r->now.parts. */
static int find_map(run_state *r, uint16_t **map)
{
    run_classes *c = &r->now.classes;
    const size_t pixels = (size_t)r->info.width * r->info.height;
    *map = NULL;
    c->width = r->now.parts ? r->now.width : r->info.width;
    c->height = r->now.parts ? r->now.height : r->info.height;
    if (r->now.parts)
        return CLI_OK;
    *map = cli_alloc(pixels, sizeof **map);
    return cli_check(
        fovea_class_map(r->plan, r->now.outs, r->n, FOVEA_EXTENT_PICTURE, *map, pixels));
}

static int take_shares(run_state *r, void *own)
{
    segments *s = own;
    run_classes *c = &r->now.classes;
    uint16_t *made;
    if (!r->segments)
        return CLI_OK;
    const int code = find_map(r, &made);
    const uint16_t *map = made ? made : r->now.parts;
    const size_t pixels = (size_t)c->width * c->height;
    free(c->of_pixel);
    c->of_pixel = cli_alloc(pixels, 1);
    memset(c->share, 0, sizeof c->share);
    for (size_t i = 0; i < pixels && !code; i++) {
        c->of_pixel[i] = (uint8_t)map[i];
        c->share[c->of_pixel[i]] += 1.0 / (double)pixels;
    }
    free(made);
    free(s->share);
    s->share = run_rank(c->share, r->s.info.segments);
    for (s->n = 0; s->n < r->s.info.segments && s->share[s->n].p > 0;)
        s->n++;
    return code;
}

static bool shows(const run_state *r, const void *own)
{
    (void)own;
    return r->segments != NULL;
}

static void print(const run_state *r, const void *own)
{
    const segments *s = own;
    const uint32_t n = r->top < s->n ? r->top : s->n;
    puts("   share  class");
    run_print_scores(r, s->share, n, RUN_SCORE_OF_PIXELS);
    if (n < s->n)
        printf("  %u more classes; --top %u shows all\n", s->n - n, s->n);
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const segments *s = own;
    json_object_set_new(root, "segmentation",
                        run_describe_scores(r, s->share, s->n, RUN_SCORE_OF_PIXELS));
}

static void release(void *own)
{
    free(((segments *)own)->share);
}

const run_sink run_sink_segments = {.size = sizeof(segments),
                                    .want = want_shares,
                                    .take = take_shares,
                                    .shows = shows,
                                    .print = print,
                                    .describe = describe,
                                    .release = release};

/* ---- pictures ---- */

typedef struct labels {
    const char *path; /* argument of --labels, or NULL */
} labels;

static size_t options(cli_option *out, run_state *r, void *own)
{
    labels *l = own;
    (void)r;
    out[0] =
        (cli_option){"labels", 0, "FILE",
                     ".png for the class index of each pixel, from a segmentation head", &l->path};
    return 1;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)r;
    out[0] = (run_file){"labels", ((const labels *)own)->path, true, false};
    return 1;
}

/* Requests the outputs that pictures of classes need. These pictures are also the overlay of models
 * without other results to draw. */
static int want_pictures(run_state *r, void *own)
{
    const labels *l = own;
    if (!l->path && !r->in.split && !(r->overlay && !run_draws(r)))
        return CLI_OK;
    choose(r);
    if (!r->segments)
        return cli_fail(CLI_UNSUPPORTED, "this model has no segmentation head; add a linear one to "
                                         "its folder as segmentation.safetensors");
    if (r->s.info.segments > RUN_SEGMENTS)
        return cli_fail(CLI_UNSUPPORTED,
                        "the head has %u classes, but pictures of classes hold at most %d; use -o, "
                        "which writes the logits",
                        r->s.info.segments, RUN_SEGMENTS);
    return CLI_OK;
}

static int write_overlay(run_state *r)
{
    const run_classes *class = &r->now.classes;
    cli_image picture;
    int code = r->now.parts ? run_photograph(&picture, r) : run_seen(&picture, r);
    for (size_t i = 0; i < (size_t)picture.width * picture.height && !code; i++) {
        uint8_t rgb[3];
        colour_of_class(rgb, class->of_pixel[i]);
        for (int c = 0; c < 3; c++)
            picture.rgb[3 * i + c] = (uint8_t)((picture.rgb[3 * i + c] + rgb[c] + 1) / 2);
    }
    if (!code) {
        char *name = run_picture_name(r, r->overlay, &r->now.at);
        code = cli_image_write_png(name, &picture);
        run_wrote(r, name);
    }
    cli_image_free(&picture);
    return code;
}

static int write_labels(run_state *r, const char *path)
{
    const run_classes *class = &r->now.classes;
    uint8_t palette[3 * RUN_SEGMENTS];
    const uint32_t n = r->s.info.segments;
    for (uint32_t i = 0; i < n; i++)
        colour_of_class(palette + 3 * i, i);
    char *name = run_picture_name(r, path, &r->now.at);
    const int code =
        cli_indices_write_png(name, class->of_pixel, class->width, class->height, palette, n);
    run_wrote(r, name);
    return code;
}

static int take_pictures(run_state *r, void *own)
{
    const labels *l = own;
    int code = l->path ? write_labels(r, l->path) : CLI_OK;
    if (r->segments && r->overlay && !run_draws(r))
        CLI_THEN(code, write_overlay(r));
    return code;
}

const run_sink run_sink_labels = {.size = sizeof(labels),
                                  .place = 2,
                                  .options = options,
                                  .files = files,
                                  .want = want_pictures,
                                  .take = take_pictures};
