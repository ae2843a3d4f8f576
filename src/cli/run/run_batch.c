/* run_batch.c: frames that run together: what their plan is, where they wait and where their
 * outputs are. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* ---- outputs ---- */

void run_look(run_state *r, uint32_t f)
{
    r->outs = r->every + f * r->n;
    for (size_t i = 0; i < r->n; i++)
        r->series[i].frame = r->outs[i].data;
}

static void free_outputs(run_state *r)
{
    for (size_t i = 0; r->every && i < r->batch * r->n; i++)
        free(r->every[i].data);
    free(r->every);
    r->every = NULL;
}

/* Sizes must stay the same where frames are kept side by side. */
static int read_shapes(run_state *r)
{
    const bool kept = r->frames > 0 && (r->output || r->features);
    for (size_t i = 0; i < r->n; i++) {
        run_series *s = &r->series[i];
        const uint32_t grid_width = s->info.grid_width;
        s->info.struct_size = sizeof s->info;
        fovea_plan_output(r->plan, i, &s->info);
        if (kept && (s->rows != s->info.rows || s->columns != s->info.columns ||
                     grid_width != s->info.grid_width))
            return cli_fail(CLI_INPUT,
                            "the inputs give outputs of different sizes, which one file cannot "
                            "hold; use --size, or one input at a time");
        s->rows = s->info.rows;
        s->columns = s->info.columns;
    }
    return CLI_OK;
}

static void reserve(run_state *r)
{
    free_outputs(r);
    r->every = cli_alloc(r->batch * r->n, sizeof *r->every);
    for (size_t i = 0; i < r->batch * r->n; i++) {
        const run_series *s = &r->series[i % r->n];
        r->every[i].size = (size_t)(s->rows * s->columns) * sizeof(float);
        r->every[i].data = cli_alloc(r->every[i].size, 1);
    }
    run_look(r, 0);
}

/* ---- the plan ---- */

/* A plan for such frames. The old one goes after the new one is there, so that packed weights stay.
 */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height)
{
    if (r->plan && r->format == format && r->plan_yuv == yuv && r->width == width &&
        r->height == height)
        return CLI_OK;
    CLI_TRY(run_together(r));
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *plan;
    const char **names = cli_alloc(r->n, sizeof *names);
    cli_plan_options(&options, &r->s.settings, r->s.device, NULL);
    for (size_t i = 0; i < r->n; i++)
        names[i] = r->series[i].name;
    options.frame.format = format;
    options.yuv = yuv;
    options.frame.width = width;
    options.frame.height = height;
    options.frame.count = r->batch;
    options.preprocess = format == FOVEA_FORMAT_PLANES_F32 ? NULL : &r->preprocess;
    options.outputs = names;
    options.n_outputs = r->n;
    int code = cli_check(fovea_plan_create(&plan, r->s.model, r->s.device, &options));
    free(names);
    CLI_TRY(code);
    fovea_plan_free(r->plan);
    r->plan = plan;
    r->format = format;
    r->plan_yuv = yuv;
    r->width = width;
    r->height = height;
    r->info.struct_size = sizeof r->info;
    fovea_plan_query(plan, &r->info);
    cli_tell_untrained(&r->info);
    if (!r->common.json) /* results say it themselves */
        cli_tell_products(&r->info);
    if (options.preprocess && !r->told)
        cli_tell_preprocess(r->rule.struct_size ? &r->rule : &r->preprocess, &r->s.info);
    r->told = r->told || options.preprocess;
    CLI_TRY(read_shapes(r));
    reserve(r);
    return CLI_OK;
}

int run_outputs(run_state *r, const fovea_frame *frame, uint32_t count, double *seconds)
{
    const double begin = cli_seconds();
    const int code = cli_check(fovea_run(r->plan, frame, r->every, count * r->n));
    *seconds = (cli_seconds() - begin) / count;
    run_look(r, 0);
    return code;
}

/* ---- frames ---- */

static void keep_pixels(run_waiting *w, fovea_frame *frame, size_t bytes)
{
    const uint8_t *from = frame->pixels[0];
    if (w->capacity < bytes) {
        free(w->pixels);
        w->pixels = cli_alloc(bytes, 1);
        w->capacity = bytes;
    }
    memcpy(w->pixels, from, bytes);
    for (int i = 0; i < 3; i++)
        if (frame->pixels[i])
            frame->pixels[i] = w->pixels + ((const uint8_t *)frame->pixels[i] - from);
}

int run_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes)
{
    const uint32_t f = r->n_waiting++;
    if (!r->waiting) {
        r->waiting = cli_alloc(r->batch, sizeof *r->waiting);
        r->pixels = cli_alloc(r->batch, sizeof *r->pixels);
    }
    r->waiting[f].at = r->at;
    r->waiting[f].name = cli_text("%s", name);
    r->pixels[f] = *frame;
    if (r->n_waiting == r->batch) /* the last one is read in place */
        return run_together(r);
    keep_pixels(&r->waiting[f], &r->pixels[f], bytes);
    return CLI_OK;
}

/* Results of one frame after the other. What fails in one ends its input, as it would alone: the
 * input `reading` hears of it; frames of another one are left. */
static int show(run_state *r, uint32_t count, double seconds, const char *reading)
{
    const char *failed = NULL;
    for (uint32_t f = 0; f < count; f++) {
        const run_waiting *w = &r->waiting[f];
        if (w->at.path == failed)
            continue;
        r->at = w->at;
        run_look(r, f);
        const int code = run_results(r, w->name, &r->pixels[f], seconds);
        if (code && (code != CLI_INPUT || !r->forgiving || r->at.path == reading))
            return code;
        if (code) {
            failed = r->at.path;
            r->skipped = code;
        }
    }
    return CLI_OK;
}

int run_together(run_state *r)
{
    const run_place now = r->at;
    const uint32_t count = r->n_waiting;
    double seconds;
    r->n_waiting = 0;
    if (count == 0)
        return CLI_OK;
    int code = run_outputs(r, r->pixels, count, &seconds);
    CLI_THEN(code, show(r, count, seconds, now.path));
    for (uint32_t f = 0; f < count; f++)
        free(r->waiting[f].name);
    r->at = now;
    return code;
}

void run_batch_free(run_state *r)
{
    free_outputs(r);
    for (uint32_t f = 0; r->waiting && f < r->batch; f++)
        free(r->waiting[f].pixels);
    free(r->waiting);
    free(r->pixels);
}
