/* run_batch.c: runs frames together: makes their plan, queues them, and stores their outputs. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/runner.h"

/* ---- outputs ---- */

void run_look(run_state *r, uint32_t f)
{
    r->now.outs = r->every + f * r->n;
    for (size_t i = 0; i < r->n; i++)
        r->series[i].frame = r->now.outs[i].data;
}

static void free_outputs(run_state *r)
{
    for (size_t i = 0; r->every && i < r->in.batch * r->n; i++)
        free(r->every[i].data);
    free(r->every);
    r->every = NULL;
}

/* Updates the shapes of outputs for a new plan. Fails if the size of an output changes that is
 * collected in one file. */
static int read_shapes(run_state *r)
{
    const bool frames = r->frames > 0;
    for (size_t i = 0; i < r->n; i++) {
        run_series *s = &r->series[i];
        const uint32_t grid_width = s->info.grid_width;
        s->info.struct_size = sizeof s->info;
        fovea_plan_output(r->plan, i, &s->info);
        if (frames && (s->saved || s->feature) &&
            (s->rows != s->info.rows || s->columns != s->info.columns ||
             grid_width != s->info.grid_width))
            return cli_fail(CLI_INPUT, "the inputs give outputs of different sizes, which cannot "
                                       "be in one file; use --size, or run one input at a time");
        s->rows = s->info.rows;
        s->columns = s->info.columns;
    }
    return CLI_OK;
}

static void reserve(run_state *r)
{
    free_outputs(r);
    r->every = cli_alloc(r->in.batch * r->n, sizeof *r->every);
    for (size_t i = 0; i < r->in.batch * r->n; i++) {
        const run_series *s = &r->series[i % r->n];
        r->every[i].size = (size_t)(s->rows * s->columns) * sizeof(float);
        r->every[i].data = cli_alloc(r->every[i].size, 1);
    }
    run_look(r, 0);
}

/* ---- the plan ---- */

/* Creates a plan for frames of this format and size. It frees the old plan afterwards, so that the
 * model keeps its packed weights. */
int run_plan_for(run_state *r, fovea_pixel_format format, fovea_yuv_matrix yuv, uint32_t width,
                 uint32_t height)
{
    if (r->plan && r->format == format && r->yuv == yuv && r->width == width && r->height == height)
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
    options.frame.count = r->in.batch;
    options.preprocess = format == FOVEA_FORMAT_PLANES_F32 ? NULL : &r->preprocess;
    options.outputs = names;
    options.n_outputs = r->n;
    int code = cli_check(fovea_plan_create(&plan, r->s.model, r->s.device, &options));
    free(names);
    CLI_TRY(code);
    marks_end(&r->in.marks);
    fovea_plan_free(r->plan);
    r->plan = plan;
    r->format = format;
    r->yuv = yuv;
    r->width = width;
    r->height = height;
    r->info.struct_size = sizeof r->info;
    fovea_plan_query(plan, &r->info);
    cli_tell_untrained(&r->info);
    if (!r->common.json) /* JSON results contain the same facts */
        cli_tell_products(&r->info);
    if (options.preprocess && !r->in.told)
        cli_tell_preprocess(r->in.rule.struct_size ? &r->in.rule : &r->preprocess, &r->s.info);
    r->in.told = r->in.told || options.preprocess;
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

int run_add_frame(run_state *r, const char *name, const fovea_frame *frame, size_t bytes)
{
    const uint32_t f = r->in.n_waiting++;
    if (!r->in.waiting) {
        r->in.waiting = cli_alloc(r->in.batch, sizeof *r->in.waiting);
        r->in.pixels = cli_alloc(r->in.batch, sizeof *r->in.pixels);
    }
    r->in.waiting[f].at = r->now.at;
    r->in.waiting[f].name = cli_text("%s", name);
    r->in.pixels[f] = *frame;
    /* the last frame of a batch runs immediately, so its pixels need not be copied */
    if (r->in.n_waiting == r->in.batch)
        return run_together(r);
    keep_pixels(&r->in.waiting[f], &r->in.pixels[f], bytes);
    return CLI_OK;
}

/* Shows the results of the frames one after the other. If a frame fails, the other frames of its
 * input are skipped. Returns the failure only if that input, `reading`, is still being read. */
static int show(run_state *r, uint32_t count, double seconds, const char *reading)
{
    const char *failed = NULL;
    for (uint32_t f = 0; f < count; f++) {
        const run_waiting *w = &r->in.waiting[f];
        if (w->at.path == failed)
            continue;
        r->now.at = w->at;
        run_look(r, f);
        r->now.name = w->name;
        r->now.pixels = r->in.pixels[f];
        r->now.width = r->width;
        r->now.height = r->height;
        const int code = run_results(r, seconds);
        if (code && (code != CLI_INPUT || !r->in.forgiving || r->now.at.path == reading))
            return code;
        if (code) {
            failed = r->now.at.path;
            r->in.skipped = code;
        }
    }
    return CLI_OK;
}

int run_together(run_state *r)
{
    const run_place now = r->now.at;
    const uint32_t count = r->in.n_waiting;
    double seconds;
    r->in.n_waiting = 0;
    if (count == 0)
        return CLI_OK;
    int code = run_outputs(r, r->in.pixels, count, &seconds);
    CLI_THEN(code, show(r, count, seconds, now.path));
    for (uint32_t f = 0; f < count; f++)
        free(r->in.waiting[f].name);
    r->now.at = now;
    return code;
}

void run_batch_free(run_state *r)
{
    free_outputs(r);
    for (uint32_t f = 0; r->in.waiting && f < r->in.batch; f++)
        free(r->in.waiting[f].pixels);
    free(r->in.waiting);
    free(r->in.pixels);
}
