/* run_depth.c: writes depth as a picture, in 16 bits or in colours, and prints its range. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/run/run_sink.h"

typedef struct depth {
    const char *path, *colours; /* arguments of --depth and --colormap; NULL if not given */
    const colour_map *map;      /* NULL for 16 bits without colours */
    bool wanted;
    float *of_pixel; /* depth of each pixel of the current frame */
    double least, median, greatest;
} depth;

static size_t options(cli_option *out, run_state *r, void *own)
{
    depth *d = own;
    (void)r;
    out[0] = (cli_option){"depth", 0, "FILE",
                          "16-bit .png for the depth: in millimetres for metric models, else "
                          "larger values are nearer",
                          &d->path};
    out[1] =
        (cli_option){"colormap", 0, "NAME",
                     "draw the depth in colours: turbo, inferno, viridis or gray", &d->colours};
    return 2;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    (void)r;
    out[0] = (run_file){"depth", ((const depth *)own)->path, true, false};
    return 1;
}

static int check(run_state *r, void *own)
{
    depth *d = own;
    d->map = d->colours ? colour_map_find(d->colours) : NULL;
    if (d->colours && !d->map)
        return cli_fail(CLI_USAGE, "--colormap %s: it must be turbo, inferno, viridis or gray",
                        d->colours);
    return d->colours && !d->path && !r->overlay
               ? cli_fail(CLI_USAGE, "--colormap needs --depth or --overlay")
               : CLI_OK;
}

static int want(run_state *r, void *own)
{
    depth *d = own;
    const bool given = cli_output_name(r->s.model, "predicted_depth");
    d->wanted = given && (d->path || r->overlay || !run_writes(r));
    if (d->path && !d->wanted)
        return cli_fail(CLI_UNSUPPORTED, "--depth %s: this model predicts no depth", d->path);
    if (d->wanted)
        run_want(r, "predicted_depth");
    return CLI_OK;
}

/* ---- a frame ---- */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Finds the smallest, largest and median value of the pixels that have a depth. */
static void measure(const run_state *r, depth *d)
{
    float *sorted = cli_alloc(run_pixels(r), sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < run_pixels(r); i++)
        if (isfinite(d->of_pixel[i]))
            sorted[n++] = d->of_pixel[i];
    qsort(sorted, n, sizeof *sorted, by_value);
    d->least = n ? sorted[0] : NAN;
    d->median = n ? sorted[n / 2] : NAN;
    d->greatest = n ? sorted[n - 1] : NAN;
    free(sorted);
}

/* Sets the colour of a pixel. Returns false if the pixel has no depth. */
static bool colour(uint8_t rgb[3], const depth *d, size_t pixel, const colour_map *map)
{
    double at[3];
    const double range = d->greatest - d->least;
    if (!isfinite(d->of_pixel[pixel]))
        return false;
    colour_at(at, map, range > 0 ? (d->of_pixel[pixel] - d->least) / range : 0.5);
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(at[c] + 0.5);
    return true;
}

static int write_colours(const run_state *r, const depth *d, const char *name)
{
    cli_image picture = {r->now.width, r->now.height, cli_alloc(run_pixels(r), 3)};
    for (size_t i = 0; i < run_pixels(r); i++)
        colour(picture.rgb + 3 * i, d, i, d->map);
    const int code = cli_image_write_png(name, &picture);
    cli_image_free(&picture);
    return code;
}

/* Writes the 16-bit picture; for metric models in millimetres. */
static int write_steps(const run_state *r, const char *name)
{
    uint16_t *steps = cli_alloc(run_pixels(r), sizeof *steps);
    int code = cli_check(fovea_depth_map_u16(r->plan, r->now.outs, r->n, FOVEA_EXTENT_FRAME,
                                             r->s.info.metric ? 1e-3 : 0, steps, run_pixels(r)));
    CLI_THEN(code, cli_depth_write_png(name, steps, r->now.width, r->now.height));
    free(steps);
    return code;
}

static int take(run_state *r, void *own)
{
    depth *d = own;
    if (!d->wanted)
        return CLI_OK;
    free(d->of_pixel);
    d->of_pixel = cli_alloc(run_pixels(r), sizeof *d->of_pixel);
    CLI_TRY(cli_check(fovea_depth_map(r->plan, r->now.outs, r->n, FOVEA_EXTENT_FRAME, d->of_pixel,
                                      run_pixels(r))));
    measure(r, d);
    if (!d->path)
        return CLI_OK;
    char *name = run_picture_name(r, d->path, &r->now.at);
    const int code = d->map ? write_colours(r, d, name) : write_steps(r, name);
    run_wrote(r, name);
    return code;
}

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const depth *)own)->wanted;
}

static void print(const run_state *r, const void *own)
{
    const depth *d = own;
    printf("  depth %.4g to %.4g, median %.4g%s\n", d->least, d->greatest, d->median,
           r->s.info.metric ? " m" : ", larger is nearer");
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const depth *d = own;
    json_object_set_new(root, "depth",
                        json_pack("{s:s, s:o, s:o, s:o}", "unit",
                                  r->s.info.metric ? "metres" : "relative", "least",
                                  cli_json_number(d->least), "median", cli_json_number(d->median),
                                  "greatest", cli_json_number(d->greatest)));
}

static void draw(const draw_pen *p, const run_state *r, const void *own, const char *file)
{
    const depth *d = own;
    const colour_map *map = d->map ? d->map : colour_map_find("turbo");
    (void)r, (void)file;
    for (uint32_t y = 0; y < p->on->height; y++)
        for (uint32_t x = 0; x < p->on->width; x++) {
            uint8_t rgb[3];
            if (colour(rgb, d, (size_t)y * p->on->width + x, map))
                draw_blend(p->on, x, y, rgb, 0.7);
        }
}

static void release(void *own)
{
    free(((depth *)own)->of_pixel);
}

const run_sink run_sink_depth = {.size = sizeof(depth),
                                 .place = 4,
                                 .options = options,
                                 .files = files,
                                 .check = check,
                                 .want = want,
                                 .take = take,
                                 .shows = shows,
                                 .print = print,
                                 .describe = describe,
                                 .draw = draw,
                                 .release = release};
