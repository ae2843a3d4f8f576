/* cmd_plan.c: `fovea plan`: what a plan takes, before anything runs. */
#include <stdio.h>

#include "cli.h"

static const char *schedule_name(fovea_schedule s)
{
    return s == FOVEA_SCHEDULE_STREAMED ? "streamed" : "stepwise";
}

static uint64_t activations(const fovea_plan_info *p)
{
    return p->residual + p->states + p->chunks + p->scratch + p->staging;
}

static void show(const fovea_plan *plan, const fovea_plan_info *p, const cli_session *s,
                 const fovea_plan_options *options, const char *model)
{
    fovea_device_info device;
    char text[32], limit[64] = "";
    const struct {
        const char *name;
        uint64_t bytes;
        const char *what;
    } kind[] = {
        {"weights", p->weights, "shared by the plans of a model"},
        {"residual", p->residual, "tensors that cross a sweep"},
        {"states", p->states, "attention states and their partial sums"},
        {"chunks", p->chunks, "what lives inside a sweep"},
        {"scratch", p->scratch, "of the kernels"},
        {"staging", p->staging, "picture, tables and the plan itself"},
        {"all but weights", activations(p), ""},
        {"largest buffer", p->largest, limit},
    };
    fovea_device_describe(s->device, &device);
    if (device.max_buffer)
        snprintf(limit, sizeof limit, "the device's limit is %s",
                 cli_bytes(text, sizeof text, device.max_buffer));
    printf("model    %s, attention %s, weights%s %s\n", model,
           s->settings.attention ? s->settings.attention : s->info.attention,
           options->activations == FOVEA_F32 ? "" : " and activations",
           cli_dtype_name(s->settings.dtype));
    printf("picture  %ux%u, grid %ux%u, %u tokens", p->width, p->height, p->grid_width,
           p->grid_height, p->tokens);
    if (p->ignored_right || p->ignored_bottom)
        printf("; %u pixels at right and %u at bottom ignored", p->ignored_right,
               p->ignored_bottom);
    printf("\ndevice   %s, %s, %s, %u threads\n", device.id, device.name, device.features,
           p->threads);
    printf("work     %u sweeps, %u steps, %u dispatches, %.2f GFLOP, about %.1f ms\n\n", p->sweeps,
           p->steps, p->dispatches, p->flops * 1e-9, p->seconds * 1e3);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        printf("%-16s %10s  %s\n", kind[i].name, cli_bytes(text, sizeof text, kind[i].bytes),
               kind[i].what);

    fovea_step_info step;
    printf("\n%5s %-8s %6s %-7s  %-24s %-44s %-26s %-7s %8s %9s\n", "sweep", "schedule", "chunk",
           "by", "step", "problem", "kernel", "by", "GFLOP", "ms");
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        printf("%5u %-8s %6u %-7s  %-24s %-44s %-26s %-7s %8.3f %9.3f\n", step.sweep,
               schedule_name(step.schedule), step.chunk, step.sweep_source, step.label,
               step.problem, step.kernel, step.source, step.flops * 1e-9, step.seconds * 1e3);
}

static json_t *describe(const fovea_plan *plan, const fovea_plan_info *p, const cli_session *s,
                        const char *model)
{
    json_t *steps = json_array();
    fovea_step_info step;
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        json_array_append_new(
            steps, json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:i, s:f, s:f, s:f}", "label",
                             step.label, "problem", step.problem, "kernel", step.kernel, "source",
                             step.source, "sweep", (int)step.sweep, "schedule",
                             schedule_name(step.schedule), "sweep_source", step.sweep_source,
                             "chunk", (int)step.chunk, "flops", step.flops, "seconds", step.seconds,
                             "bytes", step.bytes));
    fovea_device_info device;
    fovea_device_describe(s->device, &device);
    json_t *params =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "model", model, "attention",
                  s->settings.attention ? s->settings.attention : s->info.attention, "dtype",
                  cli_dtype_name(s->settings.dtype), "width", (int)p->width, "height",
                  (int)p->height, "grid_width", (int)p->grid_width, "grid_height",
                  (int)p->grid_height, "tokens", (int)p->tokens);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:i, s:i, s:i, s:f, s:f, s:o}", "schema",
                     "fovea.plan/1", "build", cli_build(), "env", cli_environment(s->device),
                     "params", params, "bytes", cli_plan_bytes(p), "max_buffer",
                     (json_int_t)device.max_buffer, "sweeps", (int)p->sweeps, "steps_count",
                     (int)p->steps, "dispatches", (int)p->dispatches, "flops", p->flops, "seconds",
                     p->seconds, "steps", steps);
}

int cli_plan(const cli_command *self, int argc, char **argv)
{
    cli_common common = {.half =
                             "f32, f16, bf16: of the weights; not on the CPU of activations too"};
    cli_session s;
    fovea_plan_options options;
    fovea_plan *plan;
    fovea_plan_info info;
    int first, code = cli_parse(&first, self, &common, NULL, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 != argc)
        return cli_fail(CLI_USAGE, "plan takes one MODEL; fovea plan --help");
    if ((code = cli_open(&s, &common, argv[first])))
        return code;
    const fovea_preprocess p = cli_preprocess(&s);
    cli_plan_options(&options, &s.settings, s.device);
    cli_picture_size(&options.frame.width, &options.frame.height, &p, &s.info);
    options.dry = 1;
    code = cli_check(fovea_plan_create(&plan, s.model, s.device, &options));
    if (!code) {
        fovea_plan_query(plan, &info);
        if (common.json)
            cli_print_json(describe(plan, &info, &s, argv[first]));
        else
            show(plan, &info, &s, &options, argv[first]);
        fovea_plan_free(plan);
    }
    cli_close(&s);
    return code;
}
