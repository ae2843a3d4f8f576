/* run_depth.c: depth as a picture, in 16 bits or in colours, and what it ranges over. */
#include <math.h>
#include <stdlib.h>

#include "cli/run/runner.h"

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of the pixels that have a depth. */
static void measure(run_state *r)
{
    run_depth *d = &r->depth;
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

bool run_depth_colour(uint8_t rgb[3], const run_depth *d, size_t pixel, const colour_map *map)
{
    double colour[3];
    const double range = d->greatest - d->least;
    if (!isfinite(d->of_pixel[pixel]))
        return false;
    colour_at(colour, map, range > 0 ? (d->of_pixel[pixel] - d->least) / range : 0.5);
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(colour[c] + 0.5);
    return true;
}

static int write_colours(const run_state *r, const char *name)
{
    cli_image picture = {r->width, r->height, cli_alloc(run_pixels(r), 3)};
    for (size_t i = 0; i < run_pixels(r); i++)
        run_depth_colour(picture.rgb + 3 * i, &r->depth, i, r->depth.map);
    const int code = cli_image_write_png(name, &picture);
    cli_image_free(&picture);
    return code;
}

/* Of metric models millimetres. */
static int write_steps(const run_state *r, const char *name)
{
    uint16_t *steps = cli_alloc(run_pixels(r), sizeof *steps);
    int code = cli_check(fovea_depth_map_u16(r->plan, r->outs, r->n, FOVEA_EXTENT_FRAME,
                                             r->s.info.metric ? 1e-3 : 0, steps, run_pixels(r)));
    CLI_THEN(code, cli_depth_write_png(name, steps, r->width, r->height));
    free(steps);
    return code;
}

int run_find_depth(run_state *r, const char *input)
{
    run_depth *d = &r->depth;
    if (!d->wanted)
        return CLI_OK;
    free(d->of_pixel);
    d->of_pixel = cli_alloc(run_pixels(r), sizeof *d->of_pixel);
    CLI_TRY(cli_check(
        fovea_depth_map(r->plan, r->outs, r->n, FOVEA_EXTENT_FRAME, d->of_pixel, run_pixels(r))));
    measure(r);
    if (!d->path)
        return CLI_OK;
    char *name = run_picture_name(r, d->path, input);
    const int code = d->map ? write_colours(r, name) : write_steps(r, name);
    run_wrote(r, name);
    return code;
}

json_t *run_depth_json(const run_state *r)
{
    const run_depth *d = &r->depth;
    return json_pack("{s:s, s:o, s:o, s:o}", "unit", r->s.info.metric ? "metres" : "relative",
                     "least", cli_json_number(d->least), "median", cli_json_number(d->median),
                     "greatest", cli_json_number(d->greatest));
}

void run_depth_free(run_depth *d)
{
    free(d->of_pixel);
}
