/* cmd_tune.c: `fovea tune`: measures which kernels and settings, or which types of products, are
 * fastest, and saves the result as wisdom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/common/interrupt.h"
#include "cli/run/runner.h"
#include "cli/run/tune_pictures.h"

/* The models to tune if no MODEL is given. Together they cover the shapes of ViTs and of models
 * with several stages. */
static const struct {
    const char *model, *attentions, *sizes;
} standard[] = {
    {"synthetic:dinov2-s", "linear:elu1,softmax", "224,518,1036"},
    {"synthetic:dinov2-b", "linear:elu1,softmax", "224,518,1036"},
    {"synthetic:mavit-t", NULL, "224,512"},
};

typedef struct tuning {
    cli_common common;
    /* out: argument of -o; NULL for the file that wisdom is read from, whose folder is created */
    const char *seconds, *out;
    const char *file; /* the file of -o, or else the default */
    const char *accuracy;
    tune_pictures pictures;
    fovea_tune_options options;
    char journal[4096];
    cli_progress progress;
    size_t saved; /* number of facts about this case that the file already contains */
    double end;   /* time at which --time is used up; 0 for no limit */
    size_t found;
} tuning;

static int save(const tuning *t)
{
    return cli_check(fovea_wisdom_save(t->out));
}

/* Shows the progress, and saves new facts before the next measurement begins. */
static int show(const fovea_tune_progress *p, void *payload)
{
    tuning *t = payload;
    cli_progress_show(&t->progress, p->done, p->total);
    if (p->found > t->saved) {
        t->saved = p->found;
        if (save(t))
            return 1;
    }
    return interrupt_code() != 0;
}

/* ---- one model, size and attention on a device ---- */

static void report(const tuning *t, const cli_session *s, const char *model,
                   const fovea_plan_options *plan, fovea_compute compute,
                   const fovea_tune_report *r)
{
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(s->device, &device);
    const char *attention = plan->attention ? plan->attention : s->info.attention;
    const double ratio = r->tuned_seconds > 0 ? r->estimate_seconds / r->tuned_seconds : 0;
    if (t->common.json) {
        cli_print_json(json_pack(
            "{s:s, s:o, s:o, s:o, s:s, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, "
            "s:f, s:f}",
            "schema", "fovea.tune/1", "build", cli_build(), "env", cli_environment(s->device),
            "model", cli_json_text(model), "attention", attention, "width", (int)plan->frame.width,
            "height", (int)plan->frame.height, "dtype", cli_dtype_name(s->settings.dtype),
            "compute", cli_compute_name(compute), "facts", (int)r->facts, "kept", (int)r->known,
            "candidates", (int)r->candidates, "wrong", (int)r->wrong, "refused", (int)r->refused,
            "skipped", (int)r->skipped, "disturbed", (int)r->disturbed, "complete", r->complete,
            "estimate_seconds", r->estimate_seconds, "tuned_seconds", r->tuned_seconds));
        return;
    }
    printf("%-6s %-22s %-14s %5ux%-5u %-4s  %3u found, %3u known, %4u tried", device.id, model,
           attention, plan->frame.width, plan->frame.height, cli_compute_name(compute), r->facts,
           r->known, r->candidates);
    if (r->wrong || r->refused || r->skipped)
        printf(" (%u wrong, %u refused, %u skipped)", r->wrong, r->refused, r->skipped);
    if (ratio > 0)
        printf("  %.1f -> %.1f ms, %.2f x", r->estimate_seconds * 1e3, r->tuned_seconds * 1e3,
               ratio);
    puts(r->complete ? "" : "  (not finished)");
    fflush(stdout);
    if (r->disturbed)
        cli_tell("%u measurements were discarded because other programs used the processors; tune "
                 "again when the machine is idle",
                 r->disturbed);
}

static int tune_kernels(tuning *t, const cli_session *s, const char *model)
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    fovea_tune_report result = FOVEA_TUNE_REPORT_INIT;
    fovea_compute compute;
    cli_plan_options(&plan, &s->settings, s->device, s->model);
    CLI_TRY(cli_settle_compute(&compute, s->model, s->device, &plan));
    cli_progress_begin(&t->progress, model);
    const int code = cli_check(fovea_tune(&result, s->model, s->device, &plan, &t->options));
    cli_progress_end(&t->progress);
    if (code)
        return code;
    cli_progress_hide();
    report(t, s, model, &plan, compute, &result);
    t->found += result.facts;
    return CLI_OK;
}

static int tune_case(tuning *t, const char *model, const char *device, const char *attention,
                     const char *size)
{
    cli_common common = t->common;
    cli_session s;
    common.device = device;
    common.attention = attention;
    common.size = size;
    common.rigor = "estimate"; /* plans that are created here must not tune themselves */
    CLI_TRY(cli_open(&s, &common, model));
    t->saved = 0;
    if (t->end > 0) {
        const double left = t->end - cli_seconds();
        t->options.seconds = left > 1e-3 ? left : 1e-3;
    }
    const int code = t->accuracy ? tune_accuracy(&s, model, &t->pictures, &t->options, &t->progress,
                                                 t->common.json, &t->found)
                                 : tune_kernels(t, &s, model);
    const int saved = save(t); /* also saves what was found before a failure */
    cli_close(&s);
    return code ? code : saved;
}

/* ---- their product ---- */

static bool out_of_time(const tuning *t)
{
    return interrupt_code() || (t->end > 0 && cli_seconds() >= t->end);
}

static int tune_product(tuning *t, const char *model, const char *attentions, const char *sizes,
                        char **device, size_t devices)
{
    char **attention = NULL, **size = NULL;
    size_t n_attentions = 0, n_sizes = 0;
    int code = cli_list(&attention, &n_attentions, "attention", attentions);
    CLI_THEN(code, cli_list(&size, &n_sizes, "size", sizes));
    for (size_t d = 0; d < devices && !code; d++)
        for (size_t a = 0; a < n_attentions && !code; a++)
            for (size_t i = 0; i < n_sizes && !code && !out_of_time(t); i++)
                code = tune_case(t, model, device[d], attention[a], size[i]);
    cli_list_free(attention);
    cli_list_free(size);
    return code;
}

static int tune_all(tuning *t, const char *model)
{
    char **device;
    size_t devices;
    const cli_common *c = &t->common;
    int code = CLI_OK;
    CLI_TRY(cli_list(&device, &devices, "device", c->device ? c->device : "cpu"));
    if (model)
        code = tune_product(t, model, c->attention, c->size, device, devices);
    for (size_t i = 0; !model && i < sizeof standard / sizeof *standard && !code; i++)
        code =
            tune_product(t, standard[i].model, c->attention ? c->attention : standard[i].attentions,
                         c->size ? c->size : standard[i].sizes, device, devices);
    cli_list_free(device);
    return code;
}

/* Determines the file for wisdom, and the journal in the same folder. */
static int settle(tuning *t)
{
    static const char *const rigors[] = {"measure", "exhaustive", NULL};
    static char usual[4000];
    double seconds = 0;
    int rigor = 0;
    CLI_TRY(cli_choose(&rigor, "rigor", t->common.rigor, rigors));
    CLI_TRY(cli_real(&seconds, "time", t->seconds, 0.001, 1e9));
    CLI_TRY(cli_wisdom(&t->common));
    t->file = t->out;
    if (!t->file) {
        CLI_TRY(cli_check(fovea_wisdom_path(usual, sizeof usual)));
        if (!*usual)
            return cli_fail(CLI_USAGE, "FOVEA_WISDOM is empty; give a file with -o");
        t->file = usual;
    }
    CLI_TRY(save(t)); /* checks before the measurements that the file can be written */
    snprintf(t->journal, sizeof t->journal, "%s.journal", t->file);
    t->options = (fovea_tune_options)FOVEA_TUNE_OPTIONS_INIT;
    t->options.rigor = rigor ? FOVEA_RIGOR_EXHAUSTIVE : FOVEA_RIGOR_MEASURE;
    t->options.journal = t->journal;
    t->options.progress = show;
    t->options.payload = t;
    t->end = t->seconds ? cli_seconds() + seconds : 0;
    return CLI_OK;
}

/* Reads the pictures from the positional arguments; `argv` begins with MODEL. */
static int gather(tuning *t, int argc, char **argv)
{
    tune_pictures *p = &t->pictures;
    if (!t->accuracy)
        return argc > 1 ? cli_fail(CLI_USAGE, "tune needs at most one MODEL; PICTUREs need "
                                              "--accuracy; see fovea tune --help")
                        : CLI_OK;
    CLI_TRY(cli_real(&p->bound, "accuracy", t->accuracy, 0, 1));
    if (p->bound <= 0 || p->bound >= 1)
        return cli_fail(CLI_USAGE,
                        "--accuracy %s: it must be a cosine between 0 and 1, such as 0.9995",
                        t->accuracy);
    if (argc < 2)
        return cli_fail(CLI_USAGE, "--accuracy needs a MODEL and at least one PICTURE to measure "
                                   "it on; see fovea tune --help");
    if (t->common.compute || t->common.dtype)
        return cli_fail(CLI_USAGE, "--accuracy tries every type to decide what --compute auto "
                                   "chooses; leave out --compute and --dtype");
    for (int i = 1; i < argc; i++)
        CLI_TRY(run_gather(&p->path, &p->count, argv[i]));
    return CLI_OK;
}

static int tune(tuning *t, int argc, char **argv)
{
    CLI_TRY(gather(t, argc, argv));
    CLI_TRY(settle(t));
    interrupt_catch("measurement");
    CLI_TRY(tune_all(t, argv[0]));
    if (t->found || interrupt_code())
        cli_tell("%s%zu fact%s found and saved in %s", interrupt_code() ? "interrupted; " : "",
                 t->found, t->found == 1 ? "" : "s", t->file);
    else if (!t->accuracy)
        cli_tell("%s already contains all facts about this; no measurement was needed", t->file);
    return interrupt_code();
}

int cli_tune(const cli_command *self, int argc, char **argv)
{
    tuning t = {
        .common = {CLI_STORES, .new_wisdom = true,
                   .more =
                       "\n--device, --attention and --size take lists. --device all means every "
                       "device of this machine.\n"}};
    const cli_option own[] = {
        {"time", 0, "S", "time limit in seconds", &t.seconds},
        {"accuracy", 0, "X",
         "find the fastest operand types whose outputs for the PICTUREs have a cosine of at least "
         "X with those in f32, such as 0.9995; --compute auto then uses these types",
         &t.accuracy},
        {"output", 'o', "FILE", "file in which results are saved (default: the file of --wisdom)",
         &t.out},
        {NULL},
    };
    int first, code = cli_parse(&first, self, &t.common, own, argc, argv);
    if (code || !first)
        return code;
    code = tune(&t, argc - first, argv + first);
    for (size_t i = 0; i < t.pictures.count; i++)
        free(t.pictures.path[i]);
    free(t.pictures.path);
    return code;
}
