/* verify_model_report.c: `fovea verify MODEL`: checks every step of a model. It also reports which
 * steps lose most accuracy because of the type of their products, how much the model differs from
 * float32, and whether float16 could represent its numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/verification.h>

#include "cli/run/verify.h"

#define FLOAT16_MOST 65504.0

enum { COSTLY = 5 };

/* The error of an int8 product is 0.01 to 0.02 if all channels of its rows have similar magnitudes.
 * The error grows with the largest channel: to 0.04 if that channel is 30 times larger than the
 * others and its weight 30 times smaller, and to 0.12 for 100 times. */
#define BADLY_SCALED 0.05

typedef struct report {
    uint32_t steps, wrong;
    char first[256]; /* label of the first wrong step, and the reason */
    /* The steps that lose most accuracy because of the type of their products, the worst first. */
    struct costly {
        double rounding;
        char label[64], products[8];
    } costly[COSTLY];
    /* The largest magnitudes, and the steps that have them. int8: the largest error of an int8
     * step. */
    struct top {
        double size;
        char label[64];
    } output, mean, sum, int8;
    json_t *badly_scaled;  /* steps whose error in int8 is above BADLY_SCALED */
    fovea_compute compute; /* type of the products */
    json_t *list;          /* NULL to print text */
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

static void note_cost(report *r, const fovea_step_check *c)
{
    size_t at = COSTLY;
    while (at > 0 && c->rounding > r->costly[at - 1].rounding)
        at--;
    if (at == COSTLY)
        return;
    memmove(&r->costly[at + 1], &r->costly[at], (COSTLY - 1 - at) * sizeof *r->costly);
    r->costly[at].rounding = c->rounding;
    snprintf(r->costly[at].label, sizeof r->costly[at].label, "%s", c->label);
    snprintf(r->costly[at].products, sizeof r->costly[at].products, "%s", c->products);
}

static void note_scale(report *r, const fovea_step_check *c)
{
    if (!c->products || strcmp(c->products, "int8") != 0)
        return;
    raise_top(&r->int8, c->rounding, c->label);
    if (c->rounding > BADLY_SCALED)
        json_array_append_new(r->badly_scaled, json_string(c->label));
}

/* Returns the factor by which numbers may grow before float16 overflows. */
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
    printf("%4zu %-26.26s %-28.28s %-5s %8.1e %7.1f %%", c->step, c->label, c->kernel,
           c->products ? c->products : "", c->rel, 100 * c->error);
    if (c->rounding > 0)
        printf(" %8.1e", c->rounding);
    else
        printf(" %8s", "-");
    if (c->end_to_end)
        printf(" %8.1e %8.1e %9.7f", c->end_to_end_max, c->end_to_end_rel, c->cosine);
    else
        printf(" %8s %8s %9s", "-", "-", "-");
    printf(" %9.3g %9s %9s %9s  %s\n", c->largest, headroom_text(c->largest).text,
           headroom_text(as_mean).text, headroom_text(as_sum).text, c->passed ? "ok" : "WRONG");
    if (c->nonfinite)
        printf("     %llu values are infinite or NaN\n", (unsigned long long)c->nonfinite);
    if (!c->passed)
        printf("     %s: %s\n", c->problem, c->text);
    fflush(stdout);
}

static json_t *describe(const fovea_step_check *c)
{
    json_t *o = json_pack(
        "{s:i, s:s, s:s, s:s, s:b, s:s, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:s?, "
        "s:o}",
        "step", (int)c->step, "label", c->label, "problem", c->problem, "kernel", c->kernel,
        "right", c->passed, "text", c->text, "values", (json_int_t)c->values, "error_of_allowed",
        cli_json_number(c->error), "rel", cli_json_number(c->rel), "max_abs",
        cli_json_number(c->max_abs), "nonfinite", (json_int_t)c->nonfinite, "largest",
        cli_json_number(c->largest), "state_mean", cli_json_number(c->state_mean), "state_sum",
        cli_json_number(c->state_sum), "divisor_mean", cli_json_number(c->divisor_mean),
        "divisor_sum", cli_json_number(c->divisor_sum), "products", c->products, "rounding",
        cli_json_number(c->rounding));
    if (c->end_to_end)
        json_object_set_new(
            o, "carried",
            json_pack("{s:o, s:o, s:o}", "max_abs", cli_json_number(c->end_to_end_max), "rel_l2",
                      cli_json_number(c->end_to_end_rel), "cosine", cli_json_number(c->cosine)));
    return o;
}

static int add(const fovea_step_check *c, void *payload)
{
    report *r = payload;
    cli_progress_hide();
    const bool wrong = !c->passed || c->nonfinite;
    r->steps++;
    if (wrong && !r->wrong++)
        snprintf(r->first, sizeof r->first, "step %zu, %s, by %s: %s", c->step, c->label, c->kernel,
                 c->passed ? "values are infinite or NaN" : c->text);
    note_cost(r, c);
    note_scale(r, c);
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

/* Generates a picture of soft colour blobs with a little noise, similar to a camera's. */
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

/* Reads a picture, or generates one if `path` is NULL, and prepares plan options for the
 * picture. */
static int take_picture(cli_image *out, fovea_plan_options *options, const cli_session *s,
                        const fovea_preprocess *rule, const char *path)
{
    cli_plan_options(options, &s->settings, s->device, s->model);
    if (!path) {
        make_up(out, options->frame.width, options->frame.height);
        return CLI_OK;
    }
    CLI_TRY(cli_image_read(out, path));
    options->frame.width = out->width;
    options->frame.height = out->height;
    options->preprocess = rule;
    return CLI_OK;
}

/* ---- accuracy ---- */

typedef struct accuracy {
    const char **name; /* name of each picture */
    verify_cosines *of, all;
    size_t pictures;
} accuracy;

/* Compares the main output on every picture with float32. Does nothing for a model whose products
 * and weights are all float32. */
static int compare_outputs(accuracy *out, const report *r, const cli_session *s,
                           const verify_request *request, const fovea_preprocess *rule)
{
    const size_t n = request->pictures ? request->pictures : 1;
    double sum = 0;
    if (s->settings.dtype == FOVEA_DTYPE_F32 && r->compute == FOVEA_COMPUTE_F32)
        return CLI_OK;
    out->name = cli_alloc(n, sizeof *out->name);
    out->of = cli_alloc(n, sizeof *out->of);
    out->all = (verify_cosines){.worst = 2};
    for (; out->pictures < n; out->pictures++) {
        const char *path = request->pictures ? request->picture[out->pictures] : NULL;
        verify_cosines *c = &out->of[out->pictures];
        fovea_plan_options options;
        cli_image picture = {0, 0, NULL};
        CLI_TRY(take_picture(&picture, &options, s, rule, path));
        const int code = verify_accuracy(c, s, &options, &picture);
        cli_image_free(&picture);
        CLI_TRY(code);
        out->name[out->pictures] = path ? path : "a generated picture";
        out->all.rows += c->rows;
        sum += c->mean * c->rows;
        out->all.mean = sum / out->all.rows;
        out->all.worst = c->worst < out->all.worst ? c->worst : out->all.worst;
    }
    return CLI_OK;
}

static int judge_accuracy(const accuracy *a, double floor)
{
    if (a->pictures == 0 || a->all.mean >= floor)
        return CLI_OK;
    return cli_fail(
        CLI_WRONG,
        "the cosine with float32 is %.6f, which is less than %g; --accuracy sets the limit",
        a->all.mean, floor);
}

static void show_accuracy(const report *r, const accuracy *a, const fovea_model *model)
{
    const char *features = cli_chosen_from(model);
    if (r->costly[0].rounding > 0)
        printf("\nsteps with the largest error from the type of their products:\n");
    for (size_t i = 0; i < COSTLY && r->costly[i].rounding > 0; i++)
        printf("  %-42s %-5s %8.1e\n", r->costly[i].label, r->costly[i].products,
               r->costly[i].rounding);
    if (a->pictures == 0)
        return;
    printf("\n%-44s %10s %10s %7s\n",
           features ? "cosine of the features with float32"
                    : "cosine of the main output with float32",
           "mean", "worst", "of row");
    for (size_t i = 0; i < a->pictures; i++)
        printf("  %-42s %10.7f %10.7f %7u\n", a->name[i], a->of[i].mean, a->of[i].worst,
               a->of[i].worst_row);
    if (a->pictures > 1)
        printf("  %-42s %10.7f %10.7f\n", "all", a->all.mean, a->all.worst);
}

/* Warns of int8 steps with badly scaled channels, with the worst step and the remedy. */
static void warn_of_scale(const report *r, const char *model)
{
    const size_t n = json_array_size(r->badly_scaled);
    if (n == 0)
        return;
    cli_tell("warning: in the rows of %zu int8 product%s, a few large channels leave too little "
             "precision for the others; the worst is %s, with an error of %.0f %%. `fovea tune %s "
             "--accuracy 0.999 PICTURE...` keeps such products in bfloat16 for --compute auto",
             n, n > 1 ? "s" : "", r->int8.label, 100 * r->int8.size, model);
}

static json_t *describe_costly(const report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COSTLY && r->costly[i].rounding > 0; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "label", r->costly[i].label,
                                              "products", r->costly[i].products, "rounding",
                                              cli_json_number(r->costly[i].rounding)));
    return list;
}

static json_t *describe_accuracy(const accuracy *a, double floor)
{
    if (a->pictures == 0)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < a->pictures; i++)
        json_array_append_new(list, json_pack("{s:o, s:f, s:f, s:i, s:i}", "picture",
                                              cli_json_text(a->name[i]), "mean", a->of[i].mean,
                                              "worst", a->of[i].worst, "worst_row",
                                              (int)a->of[i].worst_row, "rows", (int)a->of[i].rows));
    return json_pack("{s:f, s:f, s:f, s:o}", "floor", floor, "mean", a->all.mean, "worst",
                     a->all.worst, "pictures", list);
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

static void sum_up(const report *r, const accuracy *a, const fovea_model *model)
{
    printf("\n%u steps, %u wrong\n", r->steps, r->wrong);
    show_accuracy(r, a, model);
    printf("\nlargest values, and the factor by which they could grow in float16:\n");
    show_top("  in an output", &r->output);
    show_top("  in attention's state or divisor, as stored", &r->mean);
    show_top("  in the same, if summed over all tokens", &r->sum);
}

static void print_json(const report *r, const accuracy *a, const cli_session *s,
                       const verify_request *request, const fovea_plan_options *o)
{
    json_t *params =
        json_pack("{s:o, s:s, s:s, s:s, s:i, s:i}", "model", cli_json_text(request->model),
                  "attention", cli_attention(&s->settings, &s->info), "dtype",
                  cli_dtype_name(s->settings.dtype), "compute", cli_compute_name(r->compute),
                  "width", (int)o->frame.width, "height", (int)o->frame.height);
    cli_print_json(json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:i, s:s, s:{s:o, s:o, s:o}, s:o, s:O, s:o}", "schema",
        "fovea.verify/1", "build", cli_build(), "env", cli_environment(s->device), "params", params,
        "steps", r->list, "wrong", (int)r->wrong, "first_wrong", r->first, "largest", "output",
        describe_top(&r->output), "accumulated_mean", describe_top(&r->mean), "accumulated_sum",
        describe_top(&r->sum), "costly", describe_costly(r), "badly_scaled", r->badly_scaled,
        "accuracy", describe_accuracy(a, request->floor)));
}

static void show_head(const report *r, const cli_session *s, const char *name,
                      const fovea_plan_options *o)
{
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(s->device, &device);
    printf("model    %s, attention %s, %ux%u, %s, products %s, on %s\n\n"
           "%85s %36s %9s %29s\n"
           "%4s %-26s %-28s %-5s %8s %9s %8s %8s %8s %9s %9s %9s %9s %9s\n",
           name, cli_attention(&s->settings, &s->info), o->frame.width, o->frame.height,
           cli_dtype_name(s->settings.dtype), cli_compute_name(r->compute), device.id,
           "against its reference", "end to end, to the CPU in float32", "", "float16 headroom",
           "step", "what", "kernel", "of", "rel", "of bound", "rounding", "max", "rel", "cosine",
           "largest", "output", "mean", "sum");
}

int verify_model(const cli_session *s, const verify_request *request)
{
    const fovea_preprocess rule = cli_preprocess(&s->settings, s->model);
    fovea_plan_options options;
    cli_image picture = {0, 0, NULL};
    accuracy a = {.pictures = 0};
    report r = {.list = request->json ? json_array() : NULL, .badly_scaled = json_array()};
    CLI_TRY(
        take_picture(&picture, &options, s, &rule, request->pictures ? request->picture[0] : NULL));
    int code = cli_settle_compute(&r.compute, s->model, s->device, &options);
    if (!code && !request->json)
        show_head(&r, s, request->model, &options);
    const fovea_frame frame = {.pixels = {picture.rgb}};
    cli_progress bar;
    cli_progress_begin(&bar, "verify");
    CLI_THEN(code, cli_check(fovea_model_verify(s->model, s->device, &options, &frame, add, &r)));
    CLI_THEN(code, compare_outputs(&a, &r, s, request, &rule));
    cli_progress_end(&bar);
    if (request->json)
        print_json(&r, &a, s, request, &options);
    else if (!code)
        sum_up(&r, &a, s->model);
    warn_of_scale(&r, request->model);
    json_decref(r.badly_scaled);
    cli_image_free(&picture);
    if (!code && r.wrong)
        code = cli_fail(CLI_WRONG, "%s", r.first);
    CLI_THEN(code, judge_accuracy(&a, request->floor));
    free(a.name);
    free(a.of);
    return code;
}
