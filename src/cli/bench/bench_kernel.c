/* bench_kernel.c: makes kernels benchmark cases: every distinct step of a model with every kernel
 * that supports it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/verification.h>

#include "cli/bench/bench.h"

static int run(bench_case *c, double *seconds)
{
    return cli_check(fovea_trial_run(c->state, seconds));
}

static int check(bench_case *c, bench_verify *out)
{
    fovea_kernel_check found = FOVEA_KERNEL_CHECK_INIT;
    CLI_TRY(cli_check(fovea_trial_verify(c->state, &found)));
    *out = (bench_verify){.reference = "reference of the operation",
                          .max_abs = found.max_abs,
                          .rel = found.rel,
                          .ok = found.failed == 0};
    if (found.failed)
        snprintf(out->text, sizeof out->text, "%s", found.text);
    return CLI_OK;
}

static void release(bench_case *c)
{
    fovea_trial_close(c->state);
}

/* Makes a dry plan. */
static int make_plan(fovea_plan **out, const cli_settings *s, const bench_device *on,
                     const bench_request *r)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    cli_plan_options(&options, s, on->device, r->model);
    options.dry = 1;
    return cli_check(fovea_plan_create(out, r->model, on->device, &options));
}

int bench_kernel(bench_case *out, const cli_settings *s, const bench_request *request)
{
    const bench_kernel_pick *pick = request->pick;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_trial *trial;
    bench_plan_begin(out);
    CLI_TRY(make_plan(&out->plan, s, out->on, request));
    const fovea_status status = fovea_trial_open(&trial, out->plan, pick->step, pick->kernel);
    if (status)
        return status == FOVEA_ENOTSUP ? CLI_UNSUPPORTED : cli_check(status);
    bench_plan_end(out);
    fovea_plan_step(out->plan, pick->step, &step);
    out->state = trial;
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

int bench_kernel_picks(bench_kernel_pick *out, size_t capacity, size_t *n, const cli_settings *s,
                       const bench_device *on, const bench_request *r)
{
    fovea_plan *plan;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_kernel_info k = FOVEA_KERNEL_INFO_INIT;
    CLI_TRY(make_plan(&plan, s, on, r));
    *n = 0;
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        for (size_t j = 0; !repeated(plan, i, &step) && fovea_kernel_list(j, &k); j++)
            if (asked(&k, &step, r) && *n < capacity)
                out[(*n)++] = (bench_kernel_pick){i, k.name};
    fovea_plan_free(plan);
    return CLI_OK;
}
