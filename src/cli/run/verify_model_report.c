/* verify_model_report.c: `fovea verify MODEL`: every step of a model, and whether float16 would
 * hold its numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/verify.h"

#define FLOAT16_MOST 65504.0

typedef struct report {
    uint32_t steps, wrong;
    char first[256]; /* step that is wrong, and why */
    /* The largest numbers, and of which step. */
    struct top {
        double size;
        char label[64];
    } output, mean, sum;
    json_t *list; /* NULL: text */
} report;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void raise_top(struct top *t, double size, const char *label)
{
    if (size <= t->size)
        return;
    t->size = size;
    snprintf(t->label, sizeof t->label, "%s", label);
}

/* How many times larger numbers may become. */
static double headroom(double size)
{
    return size > 0 ? FLOAT16_MOST / size : INFINITY;
}

static cli_word headroom_text(double of)
{
    cli_word out;
    if (of <= 0)
        return (cli_word){"-"};
    if (of > FLOAT16_MOST)
        return (cli_word){"OVERFLOW"};
    snprintf(out.text, sizeof out.text, headroom(of) < 100 ? "%.1fx" : "%.0fx", headroom(of));
    return out;
}

static void show(const fovea_step_check *c)
{
    const double as_mean = larger(c->state_mean, c->divisor_mean);
    const double as_sum = larger(c->state_sum, c->divisor_sum);
    printf("%4zu %-26.26s %-28.28s %8.1e %7.1f %%", c->step, c->label, c->kernel, c->rel,
           100 * c->error);
    if (c->carried)
        printf(" %8.1e %8.1e %9.7f", c->carried_max, c->carried_rel, c->cosine);
    else
        printf(" %8s %8s %9s", "-", "-", "-");
    printf(" %9.3g %9s %9s %9s  %s\n", c->largest, headroom_text(c->largest).text,
           headroom_text(as_mean).text, headroom_text(as_sum).text, c->right ? "ok" : "WRONG");
    if (c->lost)
        printf("     %llu values are infinite or NaN\n", (unsigned long long)c->lost);
    if (!c->right)
        printf("     %s: %s\n", c->problem, c->text);
    fflush(stdout);
}

static json_t *describe(const fovea_step_check *c)
{
    json_t *o = json_pack(
        "{s:i, s:s, s:s, s:s, s:b, s:s, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "step",
        (int)c->step, "label", c->label, "problem", c->problem, "kernel", c->kernel, "right",
        c->right, "text", c->text, "values", (json_int_t)c->values, "error_of_allowed",
        cli_json_number(c->error), "rel", cli_json_number(c->rel), "max_abs",
        cli_json_number(c->max_abs), "nonfinite", (json_int_t)c->lost, "largest",
        cli_json_number(c->largest), "state_mean", cli_json_number(c->state_mean), "state_sum",
        cli_json_number(c->state_sum), "divisor_mean", cli_json_number(c->divisor_mean),
        "divisor_sum", cli_json_number(c->divisor_sum));
    if (c->carried)
        json_object_set_new(o, "carried",
                            json_pack("{s:o, s:o, s:o}", "max_abs", cli_json_number(c->carried_max),
                                      "rel_l2", cli_json_number(c->carried_rel), "cosine",
                                      cli_json_number(c->cosine)));
    return o;
}

static int add(const fovea_step_check *c, void *payload)
{
    report *r = payload;
    cli_progress_hide();
    const bool wrong = !c->right || c->lost;
    r->steps++;
    if (wrong && !r->wrong++)
        snprintf(r->first, sizeof r->first, "step %zu, %s, by %s: %s", c->step, c->label, c->kernel,
                 c->right ? "values are infinite or NaN" : c->text);
    raise_top(&r->output, c->largest, c->label);
    raise_top(&r->mean, larger(c->state_mean, c->divisor_mean), c->label);
    raise_top(&r->sum, larger(c->state_sum, c->divisor_sum), c->label);
    if (r->list)
        json_array_append_new(r->list, describe(c));
    else
        show(c);
    return 0;
}

/* ---- the frame ---- */

/* Soft blobs of colour under a little noise: nothing that a camera would not give. */
static void make_up(cli_image *out, uint32_t width, uint32_t height)
{
    uint32_t noise = 1;
    *out = (cli_image){width, height, cli_alloc((size_t)width * height, 3)};
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const double u = (double)x / width, v = (double)y / height;
                const double wave = sin(9 * u + c) * cos(7 * v + 2 * c) + sin(23 * u * v + 3 * c);
                noise = noise * 1664525u + 1013904223u;
                out->rgb[((size_t)y * width + x) * 3 + c] =
                    (uint8_t)(128 + 50 * wave + (double)(noise >> 28));
            }
}

/* ---- all of it ---- */

static void show_top(const char *what, const struct top *t)
{
    if (t->size > 0)
        printf("%-44s %9.3g, headroom %s (%s)\n", what, t->size, headroom_text(t->size).text,
               t->label);
}

static json_t *describe_top(const struct top *t)
{
    return json_pack("{s:o, s:o, s:s}", "size", cli_json_number(t->size), "headroom_f16",
                     cli_json_number(headroom(t->size)), "label", t->label);
}

static void sum_up(const report *r)
{
    printf("\n%u steps, %u wrong\n", r->steps, r->wrong);
    printf("\nlargest numbers, and how many times larger a float16 could hold them:\n");
    show_top("  of an output", &r->output);
    show_top("  of attention's state or divisor, as kept", &r->mean);
    show_top("  the same, were they sums over the tokens", &r->sum);
}

static void print_json(const report *r, const cli_session *s, const char *name,
                       const fovea_plan_options *o)
{
    json_t *params =
        json_pack("{s:o, s:s, s:s, s:i, s:i}", "model", cli_json_text(name), "attention",
                  cli_attention(&s->settings, &s->info), "dtype", cli_dtype_name(s->settings.dtype),
                  "width", (int)o->frame.width, "height", (int)o->frame.height);
    cli_print_json(json_pack("{s:s, s:o, s:o, s:o, s:o, s:i, s:s, s:{s:o, s:o, s:o}}", "schema",
                             "fovea.verify/1", "build", cli_build(), "env",
                             cli_environment(s->device), "params", params, "steps", r->list,
                             "wrong", (int)r->wrong, "first_wrong", r->first, "largest", "output",
                             describe_top(&r->output), "accumulated_mean", describe_top(&r->mean),
                             "accumulated_sum", describe_top(&r->sum)));
}

int verify_model(const cli_session *s, const char *name, const char *image, bool json)
{
    const fovea_preprocess p = cli_preprocess(&s->settings, s->model);
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    cli_image picture = {0, 0, NULL};
    cli_plan_options(&options, &s->settings, s->device, s->model);
    if (image) {
        CLI_TRY(cli_image_read(&picture, image));
        options.frame.width = picture.width;
        options.frame.height = picture.height;
        options.preprocess = &p;
    } else {
        make_up(&picture, options.frame.width, options.frame.height);
    }
    report r = {.list = json ? json_array() : NULL};
    fovea_device_describe(s->device, &device);
    if (!json)
        printf("model    %s, attention %s, %ux%u, %s, on %s\n\n"
               "%79s %27s %9s %29s\n%4s %-26s %-28s %8s %9s %8s %8s %9s %9s %9s %9s %9s\n",
               name, cli_attention(&s->settings, &s->info), options.frame.width,
               options.frame.height, cli_dtype_name(s->settings.dtype), device.id,
               "against its reference", "carried, against the CPU", "", "float16 headroom", "step",
               "what", "kernel", "rel", "of bound", "max", "rel", "cosine", "largest", "output",
               "mean", "sum");
    const fovea_frame frame = {.pixels = {picture.rgb}};
    cli_progress bar;
    cli_progress_begin(&bar, "verify");
    const int code = cli_check(fovea_model_verify(s->model, s->device, &options, &frame, add, &r));
    cli_progress_end(&bar);
    if (json)
        print_json(&r, s, name, &options);
    else if (!code)
        sum_up(&r);
    cli_image_free(&picture);
    CLI_TRY(code);
    return r.wrong ? cli_fail(CLI_WRONG, "%s", r.first) : CLI_OK;
}
