/* bench_model.c: a whole model on one frame as a benchmark case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct model_run {
    fovea_plan *plan;
    fovea_frame frame;
    uint8_t *pixels;
    float *out;
    size_t n; /* floats of out */
};

static int run(void *state)
{
    struct model_run *r = state;
    const fovea_output out = {r->out, r->n * sizeof *r->out};
    return cli_check(fovea_run(r->plan, &r->frame, &out, 1));
}

const fovea_plan *bench_model_plan(const bench_case *c)
{
    return ((const struct model_run *)c->state)->plan;
}

/* The same frame twice must give the same finite numbers, bit by bit. */
static int check(void *state, bench_verify *out)
{
    struct model_run *r = state;
    float *before = cli_alloc(r->n, sizeof *before);
    memcpy(before, r->out, r->n * sizeof *before);
    int code = run(r);
    double worst = 0, top = 0;
    bool finite = true;
    for (size_t i = 0; i < r->n; i++) {
        finite = finite && isfinite(r->out[i]);
        worst = fmax(worst, fabs((double)r->out[i] - before[i]));
        top = fmax(top, fabs((double)r->out[i]));
    }
    free(before);
    out->max_abs = worst;
    out->rel = top > 0 ? worst / top : 0;
    out->ok = finite && top > 0 && worst == 0;
    return code;
}

static void release(void *state)
{
    struct model_run *r = state;
    fovea_plan_free(r->plan);
    free(r->pixels);
    free(r->out);
    free(r);
}

/* Bytes that have to move whatever is fused: weights once; per token and block 4 C of attention,
 * 8 C of its projections and 10 C of an MLP of ratio 4. */
static double least_bytes(const fovea_model_info *info, const fovea_plan_info *plan,
                          fovea_dtype weights)
{
    return (weights == FOVEA_F32 ? 4.0 : 2.0) * (double)info->parameters +
           4.0 * 22 * info->depth * (double)plan->tokens * info->width;
}

static void make_frame(struct model_run *r, uint32_t width, uint32_t height)
{
    const size_t row = (size_t)width * 3, bytes = row * height;
    uint32_t x = 1;
    r->pixels = cli_alloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        r->pixels[i] = (uint8_t)(x >> 24);
    }
    r->frame.pixels[0] = r->pixels;
    r->frame.stride[0] = row;
}

/* A plan for a picture of one patch, or the size it was made for where that is too small: with the
 * weights packed before, what a case takes beside them can be measured. */
static int hold_weights(fovea_plan **out, bench_device *on, const fovea_model *model,
                        const fovea_model_info *info, const cli_settings *s)
{
    fovea_plan_options options;
    cli_plan_options(&options, s, on->device);
    options.chunk = 0;
    options.memory_limit = 0;
    options.frame.width = options.frame.height = info->patch;
    if (fovea_plan_create(out, model, on->device, &options) == FOVEA_OK)
        return CLI_OK;
    options.frame.width = info->native_width;
    options.frame.height = info->native_height;
    return cli_check(fovea_plan_create(out, model, on->device, &options));
}

int bench_model(bench_case *out, const cli_settings *s, bench_device *on, fovea_model *model,
                const char *name)
{
    fovea_model_info info;
    fovea_plan_options options;
    fovea_output_info first;
    fovea_model_describe(model, &info);
    cli_plan_options(&options, s, on->device);
    options.frame.width = s->width;
    options.frame.height = s->height;
    if (!s->width)
        cli_picture_size(&options.frame.width, &options.frame.height, &info.preprocess, &info);
    fovea_plan **anchor = &on->anchor[s->dtype];
    int code = *anchor ? CLI_OK : hold_weights(anchor, on, model, &info, s);
    if (code)
        return code;
    struct model_run *r = cli_alloc(1, sizeof *r);
    make_frame(r, options.frame.width, options.frame.height);
    out->before = bench_memory_begin();
    double begin = cli_seconds();
    code = cli_check(fovea_plan_create(&r->plan, model, on->device, &options));
    if (code) {
        release(r);
        return code;
    }
    out->plan_seconds = cli_seconds() - begin;
    fovea_plan_query(r->plan, &out->plan);
    fovea_plan_output(r->plan, 0, &first);
    r->n = (size_t)first.rows * first.columns;
    r->out = cli_alloc(r->n, sizeof *r->out);
    const char *attention = s->attention ? s->attention : info.attention;
    out->title = cli_text("%s %ux%u %s%s%s", name, options.frame.width, options.frame.height,
                          attention, s->dtype ? " " : "", s->dtype ? cli_dtype_name(s->dtype) : "");
    out->params =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:s}", "what", "model", "model", name,
                  "dtype", cli_dtype_name(s->dtype), "width", (int)options.frame.width, "height",
                  (int)options.frame.height, "attention", attention, "tokens",
                  (int)out->plan.tokens, "output", first.name);
    out->on = on;
    out->state = r;
    out->run = run;
    out->check = check;
    out->release = release;
    out->flops = out->plan.flops;
    out->bytes = least_bytes(&info, &out->plan, s->dtype);
    return CLI_OK;
}
