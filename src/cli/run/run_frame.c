/* run_frame.c: the outputs of the current frame, its pictures, and the names of its files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* ---- outputs ---- */

run_series *run_find(const run_state *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->series[i].name, name) == 0)
            return &r->series[i];
    return NULL;
}

run_series *run_want(run_state *r, const char *name)
{
    const char *own = cli_output_name(r->s.model, name);
    run_series *s = run_find(r, name);
    if (s || !own)
        return s;
    s = &r->series[r->n++];
    s->name = own;
    return s;
}

void run_save(run_state *r, const char *name)
{
    run_series *s = run_want(r, name);
    if (s)
        s->saved = r->output != NULL;
}

const float *run_patches(const run_series *s)
{
    return s->frame + s->info.prefix * s->columns;
}

const char *run_label(const run_state *r, uint32_t class)
{
    const char *text = fovea_model_label(r->s.model, class);
    return text ? text : "";
}

/* ---- pictures ---- */

int run_seen(cli_image *out, const run_state *r)
{
    const uint32_t width = r->info.width, height = r->info.height;
    const size_t plane = (size_t)width * height;
    const fovea_preprocess *p = &r->preprocess;
    *out = (cli_image){width, height, cli_alloc(plane, 3)};
    if (r->format != FOVEA_FORMAT_PLANES_F32)
        return cli_check(fovea_preprocess_apply(p, r->now.pixels.pixels[0], r->now.width,
                                                r->now.height, out->rgb, width, height));
    const float *in = r->now.pixels.pixels[0];
    for (size_t i = 0; i < 3 * plane; i++) {
        const size_t c = i / plane, at = i % plane;
        const double v = (in[i] * (double)p->std[c] + p->mean[c]) / p->rescale;
        out->rgb[3 * at + c] = (uint8_t)fmin(fmax(v + 0.5, 0), 255);
    }
    return CLI_OK;
}

int run_photograph(cli_image *out, const run_state *r)
{
    const size_t bytes = run_pixels(r) * 3;
    if (r->format == FOVEA_FORMAT_PLANES_F32)
        return run_seen(out, r);
    *out = (cli_image){r->now.width, r->now.height, cli_alloc(bytes, 1)};
    memcpy(out->rgb, r->now.pixels.pixels[0], bytes);
    return CLI_OK;
}

/* ---- files ---- */

char *run_picture_name(const run_state *r, const char *name, const run_place *at)
{
    const char *stem = cli_is_stdin(at->path) ? "stdin" : cli_file_name(at->path),
               *dot = strrchr(stem, '.');
    const int head = (int)strlen(name) - 4;
    const int end = (int)(dot && dot > stem ? (size_t)(dot - stem) : strlen(stem));
    if (at->count > 1)
        return cli_text("%.*s-%.*s-%llu.png", head, name, end, stem, (unsigned long long)at->item);
    return r->in.paths > 1 ? cli_text("%.*s-%.*s.png", head, name, end, stem)
                           : cli_text("%s", name);
}

void run_wrote(run_state *r, char *name)
{
    json_array_append_new(r->now.written, cli_json_text(name));
    free(name);
}

void run_tell_written(const run_state *r, const char *path, const fovea_tensor *tensor, size_t n)
{
    char shape[128] = "";
    for (uint32_t d = 0; n == 1 && d < tensor->rank; d++) {
        const size_t at = strlen(shape);
        snprintf(shape + at, sizeof shape - at, "%s%llu", d ? " x " : "",
                 (unsigned long long)tensor->shape[d]);
    }
    if (r->common.json)
        return;
    if (n == 1)
        cli_tell("%s: %s, %s", path, tensor->name, shape);
    else
        cli_tell("%s: %zu tensors from %zu picture%s", path, n, r->frames,
                 r->frames > 1 ? "s" : "");
}
