/* eval_runner.c: runs a model with the options of a case, one batch of pictures after the other. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"

/* Checks, before long work, that a plan can be made, and finds the type of its products. */
static int check(eval_runner *r)
{
    fovea_plan_options options;
    fovea_plan *plan;
    cli_plan_options(&options, &r->settings, r->device, r->model);
    options.outputs = r->outputs;
    options.n_outputs = r->n_outputs;
    options.frame.count = r->batch;
    options.dry = 1;
    CLI_TRY(cli_check(fovea_plan_create(&plan, r->model, r->device, &options)));
    r->info.struct_size = sizeof r->info;
    fovea_plan_query(plan, &r->info);
    fovea_plan_free(plan);
    return CLI_OK;
}

int eval_runner_begin(eval_runner *r, const char *path, const fovea_model *model,
                      fovea_device *device, const cli_settings *settings,
                      const char *const *outputs, size_t n_outputs, uint32_t batch)
{
    *r = (eval_runner){.path = path,
                       .model = model,
                       .device = device,
                       .settings = *settings,
                       .outputs = outputs,
                       .n_outputs = n_outputs,
                       .batch = batch,
                       .preprocess = cli_preprocess(settings, model)};
    return check(r);
}

void eval_runner_end(eval_runner *r)
{
    fovea_plan_free(r->plan);
    for (size_t i = 0; r->all && i < r->batch * r->n_outputs; i++)
        free(r->all[i].data);
    free(r->all);
    r->all = NULL;
    r->plan = NULL;
}

/* Makes a plan for frames of this size. It frees the old plan afterwards, so that the model keeps
 * its packed weights. */
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
    options.frame.count = r->batch;
    options.preprocess = &r->preprocess;
    options.outputs = r->outputs;
    options.n_outputs = r->n_outputs;
    CLI_TRY(cli_check(fovea_plan_create(&plan, r->model, r->device, &options)));
    eval_runner_end(r);
    r->plan = plan;
    r->width = width;
    r->height = height;
    r->out.struct_size = sizeof r->out;
    fovea_plan_query(plan, &r->info);
    cli_tell_untrained(&r->info);
    fovea_plan_output(plan, 0, &r->out);
    r->all = cli_alloc(r->batch * r->n_outputs, sizeof *r->all);
    for (size_t i = 0; i < r->batch * r->n_outputs; i++) {
        fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
        fovea_plan_output(plan, i % r->n_outputs, &info);
        r->all[i].size = (size_t)info.rows * info.columns * sizeof(float);
        r->all[i].data = cli_alloc(r->all[i].size, 1);
    }
    return CLI_OK;
}

int eval_runner_run(eval_runner *r, const eval_batch *b, double *seconds)
{
    CLI_TRY(plan_for(r, b->width, b->height));
    const double begin = cli_seconds();
    CLI_TRY(cli_check(fovea_run(r->plan, b->frame, r->all, b->frames * r->n_outputs)));
    *seconds = (cli_seconds() - begin) / b->frames;
    return CLI_OK;
}

void eval_runner_look(eval_runner *r, uint32_t frame)
{
    r->outs = r->all + frame * r->n_outputs;
}

const float *eval_rows(const eval_runner *r)
{
    return r->outs[0].data;
}

const float *eval_patches(const eval_runner *r)
{
    return eval_rows(r) + (size_t)r->out.prefix * r->out.columns;
}
