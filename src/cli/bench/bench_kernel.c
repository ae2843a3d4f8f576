/* bench_kernel.c: kernels as benchmark cases: every distinct step of a model by every kernel that
 * fits it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

struct kernel_run {
    fovea_plan *plan; /* dry */
    fovea_trial *trial;
};

static int run(void *state, double *seconds)
{
    const struct kernel_run *r = state;
    return cli_check(fovea_trial_run(r->trial, seconds));
}

static int check(void *state, bench_verify *out)
{
    struct kernel_run *r = state;
    fovea_kernel_check found = FOVEA_KERNEL_CHECK_INIT;
    const int code = cli_check(fovea_trial_verify(r->trial, &found));
    if (code)
        return code;
    *out = (bench_verify){.reference = "reference of the operation",
                          .max_abs = found.max_abs,
                          .rel = found.rel,
                          .ok = found.failed == 0};
    if (found.failed)
        snprintf(out->text, sizeof out->text, "%s", found.text);
    return CLI_OK;
}

static void release(void *state)
{
    struct kernel_run *r = state;
    fovea_trial_close(r->trial);
    fovea_plan_free(r->plan);
    free(r);
}

static int make_plan(fovea_plan **out, const cli_settings *s, const bench_device *on,
                     const bench_request *r)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_model_describe(r->model, &info);
    fovea_model_preprocess(r->model, &rule);
    cli_plan_options(&options, s, on->device);
    options.dry = 1;
    options.frame.width = s->width;
    options.frame.height = s->height;
    if (!s->width)
        cli_picture_size(&options.frame.width, &options.frame.height, &rule, &info);
    return cli_check(fovea_plan_create(out, r->model, on->device, &options));
}

int bench_kernel(bench_case *out, const cli_settings *s, bench_device *on,
                 const bench_request *request, const bench_kernel_pick *pick)
{
    struct kernel_run *r = cli_alloc(1, sizeof *r);
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_status status;
    bench_plan_begin(out);
    int code = make_plan(&r->plan, s, on, request);
    if (!code) {
        status = fovea_trial_open(&r->trial, r->plan, pick->step, pick->kernel);
        code = status == FOVEA_ENOTSUP ? CLI_UNSUPPORTED : cli_check(status);
    }
    if (code) {
        release(r);
        return code;
    }
    bench_plan_end(out, r->plan);
    fovea_plan_step(r->plan, pick->step, &step);
    out->on = on;
    out->state = r;
    out->run = run;
    out->check = check;
    out->release = release;
    out->device_time = true;
    out->flops = step.flops;
    out->bytes = step.bytes;
    out->title = cli_text("%s %s", pick->kernel, step.problem);
    out->params =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "what", "kernel", "kernel", pick->kernel,
                  "problem", step.problem, "label", step.label, "model", request->name, "dtype",
                  cli_dtype_name(s->dtype), "chosen", strcmp(step.kernel, pick->kernel) == 0);
    return CLI_OK;
}

static bool repeated(const fovea_plan *plan, size_t index, const fovea_step_info *step)
{
    fovea_step_info other = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; i < index && fovea_plan_step(plan, i, &other); i++)
        if (strcmp(other.problem, step->problem) == 0)
            return true;
    return false;
}

static bool asked(const fovea_kernel_info *k, const fovea_step_info *step, const bench_request *r)
{
    return k->usable && strcmp(step->op, k->op) == 0 && (!r->op || strcmp(r->op, k->op) == 0) &&
           (!r->kernel || strstr(k->name, r->kernel));
}

int bench_kernel_picks(bench_kernel_pick *out, size_t room, size_t *n, const cli_settings *s,
                       const bench_device *on, const bench_request *r)
{
    fovea_plan *plan;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_kernel_info k = FOVEA_KERNEL_INFO_INIT;
    int code = make_plan(&plan, s, on, r);
    if (code)
        return code;
    *n = 0;
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        for (size_t j = 0; !repeated(plan, i, &step) && fovea_kernel_list(j, &k); j++)
            if (asked(&k, &step, r) && *n < room)
                out[(*n)++] = (bench_kernel_pick){i, k.name};
    fovea_plan_free(plan);
    return CLI_OK;
}
