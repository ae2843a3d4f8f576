/* bench_reference.c: verifies a plan in two ways. Each distinct step alone is compared with the
 * reference of its operation. The output is compared with the output of another plan, which runs
 * portable kernels step by step, or the fastest kernels if portable kernels would take too long.
 *
 * The first way alone would miss a plan that connects steps wrongly. The second alone would miss an
 * error that the kernels of both plans share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/verification.h>

#include "cli/bench/bench.h"

/* most seconds for a model with portable kernels, as the cost model predicts */
#define PATIENCE 10.0
#define OP_PATIENCE 2.0 /* most seconds for an operation, as the cost model predicts */

static const char of_steps[] = "references of its steps";

static const struct way {
    const char *isa, *text;
} ways[] = {
    {"scalar", "references of its steps; portable kernels, stepwise"},
    {NULL, "references of its steps; CPU kernels, stepwise"},
};

/* ---- another plan ---- */

static int make_plan(fovea_plan **plan, fovea_device *device, const bench_subject *what, bool dry)
{
    if (what->model) {
        fovea_plan_options o = *what->options;
        o.schedule = FOVEA_SCHEDULE_STEPWISE;
        o.chunk = 0;
        o.memory_limit = 0;
        o.activations = FOVEA_DTYPE_F32;
        o.dry = dry;
        return cli_check(fovea_plan_create(plan, what->model, device, &o));
    }
    fovea_attention_options o = *what->op;
    o.schedule = FOVEA_SCHEDULE_STEPWISE;
    o.chunk = 0;
    o.memory_limit = 0;
    o.form = FOVEA_FORM_AUTO;
    o.out_storage = FOVEA_DTYPE_F32;
    o.compute = FOVEA_COMPUTE_F32;
    return cli_check(fovea_attention_plan_create(plan, device, &o));
}

/* Returns whether reference `way` is fast enough. For a model, the last way is always used. */
static bool affordable(const fovea_plan *plan, const bench_subject *what, size_t way)
{
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_query(plan, &info);
    return what->model ? way > 0 || info.seconds <= PATIENCE : info.seconds <= OP_PATIENCE;
}

static int compute(float *value, fovea_device *device, const bench_subject *what, size_t n)
{
    fovea_plan *plan;
    CLI_TRY(make_plan(&plan, device, what, false));
    const fovea_output to = {value, n * sizeof *value};
    int code = cli_check(
        what->model ? fovea_run(plan, what->frame, &to, 1)
                    : fovea_op_run(plan, what->input, what->inputs, (fovea_matrix){value, 0}));
    fovea_plan_free(plan);
    return code;
}

/* Computes the reference in one way. If that would take too long, r->value stays NULL. */
static int try_way(bench_reference *r, const bench_subject *what, size_t way, size_t n)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device *device;
    fovea_plan *plan;
    options.isa = ways[way].isa;
    CLI_TRY(cli_check(fovea_device_open(&device, "cpu", &options)));
    int code = make_plan(&plan, device, what, true);
    const bool go = !code && affordable(plan, what, way);
    if (!code)
        fovea_plan_free(plan);
    if (go) {
        r->value = cli_alloc(n, sizeof *r->value);
        r->text = ways[way].text;
        code = compute(r->value, device, what, n);
    }
    fovea_device_close(device);
    return code;
}

/* ---- steps ---- */

/* Returns whether an earlier step of the plan is the same. */
static bool repeated(const fovea_plan *plan, size_t index, const fovea_step_info *step)
{
    fovea_step_info other = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; i < index && fovea_plan_step(plan, i, &other); i++)
        if (strcmp(other.problem, step->problem) == 0 && strcmp(other.kernel, step->kernel) == 0 &&
            other.schedule == step->schedule && other.chunk == step->chunk)
            return true;
    return false;
}

static int verify_step(const fovea_plan *plan, size_t index, const fovea_step_info *step,
                       bench_verify *out)
{
    fovea_trial *r;
    fovea_kernel_check check = FOVEA_KERNEL_CHECK_INIT;
    CLI_TRY(cli_check(fovea_trial_open(&r, plan, index, NULL)));
    int code = cli_check(fovea_trial_verify(r, &check));
    out->ok = !code && check.failed == 0;
    if (!code) {
        out->max_abs = fmax(out->max_abs, check.max_abs);
        out->rel = fmax(out->rel, check.rel);
    }
    if (!code && check.failed)
        snprintf(out->text, sizeof out->text, "%s (%s, %s): %s", step->label, step->kernel,
                 step->problem, check.text);
    fovea_trial_close(r);
    return code;
}

int bench_verify_steps(const fovea_plan *plan, bench_verify *out)
{
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    *out = (bench_verify){.reference = of_steps, .ok = true};
    for (size_t i = 0; out->ok && fovea_plan_step(plan, i, &step); i++)
        if (!repeated(plan, i, &step))
            CLI_TRY(verify_step(plan, i, &step, out));
    return CLI_OK;
}

/* ---- the output ---- */

double bench_worse(double worst, double got, double want)
{
    const double error = fabs(got - want);
    return error <= worst ? worst : isnan(error) ? INFINITY : error;
}

static void compare(const bench_reference *r, const void *got, fovea_dtype type, size_t n,
                    double allowed, bench_verify *out)
{
    float *floats = cli_alloc(n, sizeof *floats);
    double worst = 0, top = 0;
    fovea_floats_decode(floats, type, got, n);
    for (size_t i = 0; i < n; i++) {
        const double want = (double)r->value[i];
        worst = bench_worse(worst, (double)floats[i], want);
        top = fmax(top, fabs(want));
    }
    free(floats);
    *out = (bench_verify){.reference = r->text,
                          .max_abs = worst,
                          .rel = top > 0 ? worst / top : worst,
                          .ok = top > 0 && worst <= allowed * top};
}

int bench_verify_output(bench_reference *r, const fovea_plan *plan, const bench_subject *what,
                        const void *got, fovea_dtype type, size_t n, double allowed,
                        bench_verify *out)
{
    if (!r->text) {
        int code = bench_verify_steps(plan, out);
        if (code || !out->ok)
            return code;
        r->text = of_steps;
        for (size_t way = 0; way < sizeof ways / sizeof *ways && !r->value; way++)
            CLI_TRY(try_way(r, what, way, n));
    }
    if (r->value)
        compare(r, got, type, n, allowed, out);
    return CLI_OK;
}
