/* eval_runner.c: a model with the options of a case, one picture after the other. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"

/* Whether such a plan can be made, before anything has taken time. */
static int check(const eval_runner *r)
{
    fovea_plan_options options;
    fovea_plan *plan;
    cli_plan_options(&options, &r->settings, r->device, r->model);
    options.outputs = &r->output;
    options.n_outputs = 1;
    options.dry = 1;
    CLI_TRY(cli_check(fovea_plan_create(&plan, r->model, r->device, &options)));
    fovea_plan_free(plan);
    return CLI_OK;
}

int eval_runner_begin(eval_runner *r, const char *path, const fovea_model *model,
                      fovea_device *device, const cli_settings *settings, const char *output)
{
    *r = (eval_runner){.path = path,
                       .model = model,
                       .device = device,
                       .settings = *settings,
                       .output = output,
                       .preprocess = cli_preprocess(settings, model)};
    return check(r);
}

void eval_runner_end(eval_runner *r)
{
    fovea_plan_free(r->plan);
    free(r->data);
    r->plan = NULL;
    r->data = NULL;
}

/* A plan for such frames. The old one goes after the new one is there, so that packed weights stay.
 */
static int plan_for(eval_runner *r, uint32_t width, uint32_t height)
{
    fovea_plan_options options;
    fovea_plan *plan;
    if (r->plan && r->width == width && r->height == height)
        return CLI_OK;
    cli_plan_options(&options, &r->settings, r->device, NULL);
    options.frame.format = FOVEA_FORMAT_RGB8;
    options.frame.width = width;
    options.frame.height = height;
    options.preprocess = &r->preprocess;
    options.outputs = &r->output;
    options.n_outputs = 1;
    CLI_TRY(cli_check(fovea_plan_create(&plan, r->model, r->device, &options)));
    eval_runner_end(r);
    r->plan = plan;
    r->width = width;
    r->height = height;
    r->info.struct_size = sizeof r->info;
    r->out.struct_size = sizeof r->out;
    fovea_plan_query(plan, &r->info);
    fovea_plan_output(plan, 0, &r->out);
    r->data = cli_alloc((size_t)r->out.rows * r->out.columns, sizeof *r->data);
    return CLI_OK;
}

int eval_runner_picture(eval_runner *r, const dataset_picture *p, double *seconds)
{
    CLI_TRY(plan_for(r, p->width, p->height));
    const fovea_frame frame = {.pixels = {p->rgb}};
    const fovea_output out = {r->data, (size_t)r->out.rows * r->out.columns * sizeof *r->data};
    const double begin = cli_seconds();
    CLI_TRY(cli_check(fovea_run(r->plan, &frame, &out, 1)));
    *seconds = cli_seconds() - begin;
    return CLI_OK;
}

const float *eval_patches(const eval_runner *r)
{
    return r->data + (size_t)r->out.prefix * r->out.columns;
}
