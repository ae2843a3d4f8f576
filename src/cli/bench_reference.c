/* bench_reference.c: what a model's output should be: by the portable kernels of the CPU, one step
 * after the other, each over all tokens; where that takes too long, by its best ones. And what its
 * steps should give: kernels that agree with one another may still be wrong together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PATIENCE 10.0 /* seconds that the portable kernels may take, by the cost model */

static const struct way {
    const char *isa, *text;
} ways[] = {
    {"scalar", "definitions of its steps; portable kernels, stepwise"},
    {NULL, "definitions of its steps; CPU kernels, stepwise"},
};

/* Errors of kernels that round differently, through all layers. */
static double allowed(const fovea_plan_options *o)
{
    static const double by_activations[] = {1e-3, 3e-2, 2e-1}; /* by fovea_dtype */
    return by_activations[o->activations];
}

static int open_plan(fovea_device **device, fovea_plan **plan, const struct way *way,
                     const fovea_model *model, const fovea_plan_options *options, int dry)
{
    fovea_plan_options o = *options;
    fovea_device_options d = FOVEA_DEVICE_OPTIONS_INIT;
    d.isa = way->isa;
    o.schedule = FOVEA_SCHEDULE_STEPWISE;
    o.chunk = 0;
    o.memory_limit = 0;
    o.activations = FOVEA_F32;
    o.dry = dry;
    int code = cli_check(fovea_device_open(device, "cpu", &d));
    if (code)
        return code;
    code = cli_check(fovea_plan_create(plan, model, *device, &o));
    if (code)
        fovea_device_close(*device);
    return code;
}

/* Whether it is done in time. */
static bool affordable(const struct way *way, const fovea_model *model,
                       const fovea_plan_options *options)
{
    fovea_device *device;
    fovea_plan *plan;
    fovea_plan_info info;
    if (open_plan(&device, &plan, way, model, options, 1))
        return false;
    fovea_plan_query(plan, &info);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return info.seconds <= PATIENCE;
}

int bench_reference_make(bench_reference *out, const fovea_model *model,
                         const fovea_plan_options *options, const fovea_frame *frame, size_t n)
{
    fovea_device *device;
    fovea_plan *plan;
    const struct way *way = affordable(&ways[0], model, options) ? &ways[0] : &ways[1];
    int code = open_plan(&device, &plan, way, model, options, 0);
    if (code)
        return code;
    float *value = cli_alloc(n, sizeof *value);
    const fovea_output to = {value, n * sizeof *value};
    code = cli_check(fovea_run(plan, frame, &to, 1));
    fovea_plan_free(plan);
    fovea_device_close(device);
    if (code)
        free(value);
    else
        *out = (bench_reference){value, allowed(options), way->text};
    return code;
}

/* ---- steps ---- */

/* Whether a step before it is the same. */
static bool repeated(const fovea_plan *plan, size_t index, const fovea_step_info *step)
{
    fovea_step_info other;
    for (size_t i = 0; i < index && fovea_plan_step(plan, i, &other); i++)
        if (strcmp(other.problem, step->problem) == 0 && strcmp(other.kernel, step->kernel) == 0 &&
            other.schedule == step->schedule && other.chunk == step->chunk)
            return true;
    return false;
}

static int verify_step(const fovea_plan *plan, size_t index, const fovea_step_info *step,
                       bench_verify *out)
{
    fovea_rehearsal *r;
    fovea_kernel_check check;
    int code = cli_check(fovea_rehearsal_open(&r, plan, index, NULL));
    if (code)
        return code;
    code = cli_check(fovea_rehearsal_verify(r, &check));
    out->ok = !code && check.failed == 0;
    if (!code && check.failed)
        snprintf(out->text, sizeof out->text, "%s (%s, %s): %s", step->label, step->kernel,
                 step->problem, check.text);
    fovea_rehearsal_close(r);
    return code;
}

int bench_steps_verify(const fovea_plan *plan, bench_verify *out)
{
    fovea_step_info step;
    int code = CLI_OK;
    *out = (bench_verify){.reference = "definitions of its steps", .ok = true};
    for (size_t i = 0; !code && out->ok && fovea_plan_step(plan, i, &step); i++)
        if (!repeated(plan, i, &step))
            code = verify_step(plan, i, &step, out);
    return code;
}
