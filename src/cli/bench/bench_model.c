/* bench_model.c: makes a whole model on one frame or batch a benchmark case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

struct model_run {
    bench_model_run what;
    fovea_plan_options options;
    fovea_plan *anchor; /* keeps the weights that plans share in memory */
    fovea_frame *frame; /* the batch; all frames have the same pixels */
    fovea_output *outs; /* their outputs */
    uint8_t *pixels;
    float *out; /* outputs of all frames, one after the other */
    size_t n;   /* floats in the output of a frame */
    bench_reference reference;
};

static int run(bench_case *c, double *seconds)
{
    const struct model_run *r = c->state;
    const int code = cli_check(fovea_run(c->plan, r->frame, r->outs, r->what.batch));
    *seconds = fovea_plan_seconds(c->plan);
    return code;
}

/* Returns the largest allowed error, relative to the largest value. Kernels round differently, and
 * errors accumulate through the layers. */
static double allowed(const fovea_plan_options *o, fovea_compute compute)
{
    static const double by_activations[] = {1e-3, 3e-2, 2e-1}; /* by fovea_dtype */
    static const double by_compute[] = {0, 3e-2, 1e-1};
    return by_activations[o->activations] + by_compute[compute];
}

static int check(bench_case *c, bench_verify *out)
{
    struct model_run *r = c->state;
    /* A detector's queries can swap if their scores are nearly equal, so that rows of outputs
     * cannot be compared. */
    if (cli_chosen_from(r->what.model) && c->info.compute != FOVEA_COMPUTE_F32)
        return bench_verify_steps(c->plan, out);
    const bench_subject what = {.model = r->what.model, .options = &r->options, .frame = r->frame};
    return bench_verify_output(&r->reference, c->plan, &what, r->out, FOVEA_DTYPE_F32, r->n,
                               allowed(&r->options, c->info.compute), out);
}

static void release(bench_case *c)
{
    struct model_run *r = c->state;
    fovea_plan_free(r->anchor);
    if (r->what.owned)
        fovea_model_free(r->what.model);
    free(r->reference.value);
    free(r->frame);
    free(r->outs);
    free(r->pixels);
    free(r->out);
    free(r);
}

/* Returns the bytes that must move with any fusion: weights once; and for each token and block, in
 * units of the width C, 4 C for attention, 8 C for its projections and 10 C for an MLP of ratio
 * 4. */
static double least_bytes(const fovea_model_info *info, const fovea_plan_info *plan,
                          fovea_dtype weights)
{
    const fovea_compute compute = plan->compute;
    const bool int8 = compute == FOVEA_COMPUTE_INT8 || weights == FOVEA_DTYPE_I8;
    const bool narrow = compute == FOVEA_COMPUTE_BF16 || weights != FOVEA_DTYPE_F32;
    const double weight = int8 ? 1 : narrow ? 2 : 4;
    return weight * (double)info->parameters + (compute == FOVEA_COMPUTE_F32 ? 4.0 : 2.0) * 22 *
                                                   info->depth * (double)plan->tokens *
                                                   plan->count * info->width;
}

static void make_frames(struct model_run *r)
{
    const size_t row = (size_t)r->options.frame.width * 3, bytes = row * r->options.frame.height;
    uint32_t x = 1;
    r->pixels = cli_alloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        r->pixels[i] = (uint8_t)(x >> 24);
    }
    r->frame = cli_alloc(r->what.batch, sizeof *r->frame);
    for (uint32_t f = 0; f < r->what.batch; f++)
        r->frame[f] = (fovea_frame){{r->pixels}, {row}};
}

/* Packs the weights with a plan for a picture of one patch, or of the native size if one patch is
 * too small. Later measurements of a case's memory then do not include the weights. */
static int hold_weights(struct model_run *r, fovea_device *device, const fovea_model_info *info)
{
    fovea_plan_options options = r->options;
    options.chunk = 0;
    options.memory_limit = 0;
    options.frame.count = 1;
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
    CLI_TRY(cli_check(fovea_plan_create(&out->plan, r->what.model, out->on->device, &r->options)));
    bench_plan_end(out);
    fovea_plan_output(out->plan, 0, &first);
    r->n = (size_t)first.rows * first.columns;
    r->out = cli_alloc(r->what.batch * r->n, sizeof *r->out);
    r->outs = cli_alloc(r->what.batch, sizeof *r->outs);
    for (uint32_t f = 0; f < r->what.batch; f++)
        r->outs[f] = (fovea_output){r->out + f * r->n, r->n * sizeof *r->out};
    out->results = r->what.batch * r->n * sizeof *r->out;
    return CLI_OK;
}

int bench_model_case(bench_case *out, const cli_settings *s, const bench_model_run *what)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    struct model_run *r = cli_alloc(1, sizeof *r);
    fovea_plan_options *options = &r->options;
    r->what = *what;
    fovea_model_describe(what->model, &info);
    cli_plan_options(options, s, out->on->device, what->model);
    if (what->output) {
        options->outputs = &r->what.output;
        options->n_outputs = 1;
    }
    options->frame.count = r->what.batch;
    make_frames(r);
    out->state = r;
    out->run = run;
    out->check = check;
    out->release = release;
    CLI_TRY(hold_weights(r, out->on->device, &info));
    CLI_TRY(make_plan(out, r));
    /* the reference plan multiplies numbers of the same type */
    options->compute = out->info.compute;
    out->flops = out->info.flops;
    out->bytes = least_bytes(&info, &out->info, s->dtype);
    return CLI_OK;
}

int bench_model(bench_case *out, const cli_settings *s, const bench_request *request)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_output_info first = FOVEA_OUTPUT_INFO_INIT;
    fovea_model_describe(request->model, &info);
    bench_model_run what = {.model = request->model, .name = request->name, .batch = 1};
    CLI_TRY(cli_number(&what.batch, "batch", request->batch, 1, CLI_BATCH));
    CLI_TRY(bench_model_case(out, s, &what));
    const fovea_plan_options *o = &((const struct model_run *)out->state)->options;
    const char *attention = cli_attention(s, &info);
    fovea_plan_output(out->plan, 0, &first);
    char many[16] = "";
    if (what.batch > 1)
        snprintf(many, sizeof many, " x%u", what.batch);
    out->title = cli_text("%s %ux%u%s %s%s", what.name, o->frame.width, o->frame.height, many,
                          attention, bench_types(s->dtype, out->info.compute).text);
    out->params = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:s}", "what", "model", "model",
                            what.name, "dtype", cli_dtype_name(s->dtype), "width",
                            (int)o->frame.width, "height", (int)o->frame.height, "attention",
                            attention, "tokens", (int)out->info.tokens, "output", first.name);
    if (what.batch > 1)
        json_object_set_new(out->params, "batch", json_integer(what.batch));
    cli_add_linear_form(out->params, s);
    return CLI_OK;
}
