/* bench_model.c: a whole model on one frame as a benchmark case. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

struct model_run {
    bench_model_run what;
    fovea_plan_options options;
    fovea_plan *anchor; /* holds the weights that plans share */
    fovea_plan *plan;
    fovea_frame frame;
    uint8_t *pixels;
    float *out;
    size_t n; /* floats of out */
    bench_reference reference;
};

static int run(void *state, double *seconds)
{
    struct model_run *r = state;
    const fovea_output out = {r->out, r->n * sizeof *r->out};
    const int code = cli_check(fovea_run(r->plan, &r->frame, &out, 1));
    *seconds = fovea_plan_seconds(r->plan);
    return code;
}

/* Errors of kernels that round differently, through all layers: of the largest value. */
static double allowed(const fovea_plan_options *o)
{
    static const double by_activations[] = {1e-3, 3e-2, 2e-1}; /* by fovea_dtype */
    return by_activations[o->activations];
}

static int check(void *state, bench_verify *out)
{
    struct model_run *r = state;
    const bench_subject what = {.model = r->what.model, .options = &r->options, .frame = &r->frame};
    return bench_verify_output(&r->reference, r->plan, &what, r->out, FOVEA_DTYPE_F32, r->n,
                               allowed(&r->options), out);
}

static void release(void *state)
{
    struct model_run *r = state;
    fovea_plan_free(r->plan);
    fovea_plan_free(r->anchor);
    if (r->what.owned)
        fovea_model_free(r->what.model);
    free(r->reference.value);
    free(r->pixels);
    free(r->out);
    free(r);
}

/* Bytes that have to move whatever is fused: weights once; per token and block 4 C of attention,
 * 8 C of its projections and 10 C of an MLP of ratio 4. */
static double least_bytes(const fovea_model_info *info, const fovea_plan_info *plan,
                          fovea_dtype weights)
{
    return (weights == FOVEA_DTYPE_F32 ? 4.0 : 2.0) * (double)info->parameters +
           4.0 * 22 * info->depth * (double)plan->tokens * info->width;
}

static void make_frame(struct model_run *r)
{
    const size_t row = (size_t)r->options.frame.width * 3, bytes = row * r->options.frame.height;
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
static int hold_weights(struct model_run *r, fovea_device *device, const fovea_model_info *info)
{
    fovea_plan_options options = r->options;
    options.chunk = 0;
    options.memory_limit = 0;
    options.frame.width = options.frame.height = info->patch;
    if (fovea_plan_create(&r->anchor, r->what.model, device, &options) == FOVEA_OK)
        return CLI_OK;
    options.frame.width = info->native_width;
    options.frame.height = info->native_height;
    return cli_check(fovea_plan_create(&r->anchor, r->what.model, device, &options));
}

static int make_plan(bench_case *out, struct model_run *r)
{
    fovea_output_info first = FOVEA_OUTPUT_INFO_INIT;
    bench_plan_begin(out);
    const int code =
        cli_check(fovea_plan_create(&r->plan, r->what.model, out->on->device, &r->options));
    if (code)
        return code;
    bench_plan_end(out, r->plan);
    fovea_plan_output(r->plan, 0, &first);
    r->n = (size_t)first.rows * first.columns;
    r->out = cli_alloc(r->n, sizeof *r->out);
    return CLI_OK;
}

int bench_model_case(bench_case *out, const cli_settings *s, bench_device *on,
                     const bench_model_run *what)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    struct model_run *r = cli_alloc(1, sizeof *r);
    fovea_plan_options *options = &r->options;
    r->what = *what;
    fovea_model_describe(what->model, &info);
    fovea_model_preprocess(what->model, &rule);
    cli_plan_options(options, s, on->device);
    options->frame.width = s->width;
    options->frame.height = s->height;
    if (!s->width)
        cli_picture_size(&options->frame.width, &options->frame.height, &rule, &info);
    if (what->output) {
        options->outputs = &r->what.output;
        options->n_outputs = 1;
    }
    make_frame(r);
    out->on = on;
    int code = hold_weights(r, on->device, &info);
    if (!code)
        code = make_plan(out, r);
    if (code) {
        release(r);
        return code;
    }
    out->state = r;
    out->run = run;
    out->check = check;
    out->release = release;
    out->flops = out->info.flops;
    out->bytes = least_bytes(&info, &out->info, s->dtype);
    return CLI_OK;
}

int bench_model(bench_case *out, const cli_settings *s, bench_device *on,
                const bench_request *request)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_output_info first = FOVEA_OUTPUT_INFO_INIT;
    fovea_model_describe(request->model, &info);
    const bench_model_run what = {.model = request->model, .name = request->name};
    const int code = bench_model_case(out, s, on, &what);
    if (code)
        return code;
    const fovea_plan_options *o = &((const struct model_run *)out->state)->options;
    const char *attention = s->attention ? s->attention : info.attention;
    fovea_plan_output(out->plan, 0, &first);
    out->title = cli_text("%s %ux%u %s%s%s", what.name, o->frame.width, o->frame.height, attention,
                          s->dtype ? " " : "", s->dtype ? cli_dtype_name(s->dtype) : "");
    out->params = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:s}", "what", "model", "model",
                            what.name, "dtype", cli_dtype_name(s->dtype), "width",
                            (int)o->frame.width, "height", (int)o->frame.height, "attention",
                            attention, "tokens", (int)out->info.tokens, "output", first.name);
    return CLI_OK;
}
