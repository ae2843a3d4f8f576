/* tune_pictures.c: `fovea tune --accuracy`: finds the types of products that keep a model's outputs
 * on pictures within a bound, and which of them is fastest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/tune_pictures.h"

/* ---- pictures ---- */

/* Reads a picture in the size that the model sees, with the strides of the plan's frame. */
static int read_frame(fovea_frame *out, const char *path, const cli_session *s,
                      const fovea_plan_options *plan)
{
    cli_image image;
    fovea_preprocess p = cli_preprocess(&s->settings, s->model);
    const uint32_t width = plan->frame.width, height = plan->frame.height;
    uint8_t *seen = cli_alloc((size_t)width * height, 3);
    out->pixels[0] = seen;
    CLI_TRY(cli_image_read(&image, path));
    int code = cli_check(fovea_preprocess_resize(&p, width, height));
    CLI_THEN(code, cli_check(fovea_preprocess_apply(&p, image.rgb, image.width, image.height, seen,
                                                    width, height)));
    cli_image_free(&image);
    return code;
}

/* ---- the report ---- */

typedef struct result {
    const cli_session *session;
    const char *model;
    const tune_pictures *pictures;
    const fovea_plan_options *plan;
    fovea_accuracy_report report;
    json_t *bf16; /* labels of the products that stay bfloat16 in the mix of int8 and bfloat16 */
} result;

/* Lists the products that stay bfloat16 in the mix. */
static int name_products(result *r)
{
    fovea_plan *plan;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_plan_options options = *r->plan;
    options.compute = FOVEA_COMPUTE_INT8;
    options.dry = 1;
    CLI_TRY(cli_check(fovea_plan_create(&plan, r->session->model, r->session->device, &options)));
    for (uint32_t i = 0;
         i < r->report.bf16_count && fovea_plan_step(plan, r->report.bf16_steps[i], &step); i++)
        json_array_append_new(r->bf16, json_string(step.label));
    fovea_plan_free(plan);
    return CLI_OK;
}

static json_t *describe_way(const fovea_accuracy *a)
{
    return a->tried ? json_pack("{s:o, s:o, s:o}", "cosine", cli_json_number(a->cosine), "worst",
                                cli_json_number(a->worst), "seconds", cli_json_number(a->seconds))
                    : json_null();
}

static void describe(const result *r)
{
    const fovea_accuracy_report *a = &r->report;
    json_t *tried = json_pack("{s:o, s:o, s:o, s:o}", "f32", describe_way(&a->f32), "bf16",
                              describe_way(&a->bf16), "int8", describe_way(&a->int8), "mix",
                              describe_way(&a->mixed));
    cli_print_json(
        json_pack("{s:s, s:o, s:o, s:o, s:s, s:i, s:i, s:i, s:f, s:b, s:b, s:s, s:i, s:O, s:o}",
                  "schema", "fovea.accuracy/1", "build", cli_build(), "env",
                  cli_environment(r->session->device), "model", cli_json_text(r->model),
                  "attention", cli_attention(&r->session->settings, &r->session->info), "width",
                  (int)r->plan->frame.width, "height", (int)r->plan->frame.height, "pictures",
                  (int)r->pictures->count, "bound", r->pictures->bound, "complete", a->complete,
                  "found", a->found, "compute", cli_compute_name(a->compute), "products",
                  (int)a->products, "mix_bf16", r->bf16, "tried", tried));
}

static void show_way(const result *r, const char *name, const fovea_accuracy *a, bool chosen)
{
    if (!a->tried)
        return;
    const char *verdict = a->cosine < r->pictures->bound ? "misses the bound"
                          : chosen                       ? "<- --compute auto"
                                                         : "";
    printf("  %-28s %9.6f %9.6f %9.2f  %s\n", name, a->cosine, a->worst, a->seconds * 1e3, verdict);
}

static void show(const result *r)
{
    const fovea_accuracy_report *a = &r->report;
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    char mix[64];
    size_t i;
    json_t *label;
    fovea_device_describe(r->session->device, &device);
    printf("%-6s %s, attention %s, %ux%u, %zu picture%s, cosine at least %g%s\n", device.id,
           r->model, cli_attention(&r->session->settings, &r->session->info), r->plan->frame.width,
           r->plan->frame.height, r->pictures->count, r->pictures->count == 1 ? "" : "s",
           r->pictures->bound, a->complete ? "" : "  (not finished)");
    snprintf(mix, sizeof mix, "int8, %u of %u in bf16", a->bf16_count, a->products);
    printf("  %-28s %9s %9s %9s\n", "products", "cosine", "worst row", "ms");
    const bool int8 = a->found && a->compute == FOVEA_COMPUTE_INT8;
    show_way(r, "f32", &a->f32, a->found && a->compute == FOVEA_COMPUTE_F32);
    show_way(r, "bf16", &a->bf16, a->found && a->compute == FOVEA_COMPUTE_BF16);
    show_way(r, "int8", &a->int8, int8);
    show_way(r, mix, &a->mixed, int8);
    json_array_foreach(r->bf16, i, label)
        printf("%s%s", i ? "; " : "  in bf16, most effective first: ", json_string_value(label));
    if (i)
        putchar('\n');
    if (!a->found)
        puts("  nothing was saved");
    fflush(stdout);
}

/* ---- all of it ---- */

static int find(result *r, const fovea_frame *frame, const fovea_tune_options *options)
{
    CLI_TRY(
        cli_check(fovea_tune_accuracy(&r->report, r->session->model, r->session->device, r->plan,
                                      frame, r->pictures->count, r->pictures->bound, options)));
    return r->report.bf16_count ? name_products(r) : CLI_OK;
}

int tune_accuracy(const cli_session *s, const char *model, const tune_pictures *pictures,
                  const fovea_tune_options *options, cli_progress *bar, bool json, size_t *found)
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    result r = {.session = s,
                .model = model,
                .pictures = pictures,
                .plan = &plan,
                .report = FOVEA_ACCURACY_REPORT_INIT,
                .bf16 = json_array()};
    fovea_frame *frame = cli_alloc(pictures->count, sizeof *frame);
    int code = CLI_OK;
    cli_plan_options(&plan, &s->settings, s->device, s->model);
    for (size_t i = 0; i < pictures->count && !code; i++)
        code = read_frame(&frame[i], pictures->path[i], s, &plan);
    cli_progress_begin(bar, model);
    CLI_THEN(code, find(&r, frame, options));
    cli_progress_end(bar);
    if (!code) {
        cli_progress_hide();
        (json ? describe : show)(&r);
        *found += r.report.found != 0;
    }
    for (size_t i = 0; i < pictures->count; i++)
        free((void *)(uintptr_t)frame[i].pixels[0]);
    free(frame);
    json_decref(r.bf16);
    return code;
}
