/* cmd_bench.c: `fovea bench`: verifies, and then times, a case for each combination of the options'
 * lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_floors.h"
#include "cli/bench/bench_results.h"
#include "cli/common/interrupt.h"

/* The model whose steps kernels are timed on by default. */
#define KERNEL_MODEL "synthetic:dinov2-b"

/* Seconds of a sample of a single step. A sample must be long enough for a disturbance to affect it
 * as much as the whole model. */
#define FLOOR_SAMPLE 10e-3

struct bench {
    bench_request request;
    const char *runs, *time, *warmup, *check, *rate, *sustain;
    bench_options options;
    /* options about results: */
    const char *format, *note, *from, *trace;
    const char *baseline, *fail_above;
    /* the baseline's results, which are read first because -O may overwrite their file */
    json_t *earlier;
    bool per_layer;
    double allowed; /* allowed increase over the baseline, in percent */
    bench_output output;
    bench_set set;
    bench_floors floors;
};

/* ---- results ---- */

/* Returns the results. With `bench floors`, all other cases are part of the model's result. Cases
 * without a time, because of an interrupt, are left out. */
static json_t *describe_all(const struct bench *b)
{
    const bool floors = b->request.what == BENCH_FLOORS;
    json_t *results = json_array();
    if (floors && (b->set.cases == 0 || b->set.list[b->set.cases - 1].samples == 0))
        return results;
    for (size_t i = 0; i < (floors ? 1 : b->set.cases); i++) {
        if (b->set.list[i].samples == 0)
            continue;
        json_t *r = bench_describe(&b->set.list[i]);
        if (b->note)
            json_object_set_new(r, "note", json_string(b->note));
        if (floors)
            json_object_set_new(r, "floors", bench_floors_describe(&b->floors, b->set.list));
        json_array_append_new(results, r);
    }
    return results;
}

/* With --strict or --baseline, fails if a result is not reliable. */
static int judge(const struct bench *b, const json_t *results)
{
    static const char *const doubtful[] = {"throttled", "unstable", "noisy"};
    size_t i;
    json_t *r;
    if (!b->request.common.strict && !b->baseline)
        return CLI_OK;
    bench_foreach(results, i, r) {
        for (size_t k = 0; k < sizeof doubtful / sizeof *doubtful; k++)
            if (strcmp(bench_word(r, "status"), doubtful[k]) == 0)
                return cli_fail(CLI_UNSTABLE,
                                "%s: %s; try a longer --time, or a quieter, cooler machine",
                                bench_word(r, "title"), doubtful[k]);
    }
    return CLI_OK;
}

/* Writes the results, and compares them with the baseline. */
static int report(const struct bench *b, json_t *results)
{
    const int known = b->baseline ? bench_baseline_add(results, b->earlier, b->baseline) : CLI_OK;
    CLI_TRY(bench_output_write(&b->output, results));
    CLI_TRY(known);
    CLI_TRY(b->baseline ? bench_baseline_judge(results, b->allowed) : CLI_OK);
    return judge(b, results);
}

/* Reports the cases that were finished before an interrupt. */
static int report_interrupted(const struct bench *b, json_t *results)
{
    const size_t n = json_array_size(results);
    const int code = n ? report(b, results) : CLI_OK;
    fprintf(stderr, "fovea: interrupted; %zu of the %zu cases that were begun were timed%s%s\n", n,
            b->request.what == BENCH_FLOORS ? 1 : b->set.cases,
            n && b->output.path ? ", and their results are in " : "",
            n && b->output.path ? b->output.path : "");
    return code == CLI_INPUT ? code : interrupt_code();
}

/* ---- profiles ---- */

static int write_trace(const char *path, json_t *events)
{
    json_t *root = json_pack("{s:O, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    const int failed = json_dump_file(root, path, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(root);
    return failed ? cli_fail(CLI_INPUT, "--trace %s: cannot be written", path) : CLI_OK;
}

static int profile(struct bench *b)
{
    json_t *events = b->trace ? json_array() : NULL;
    int code = CLI_OK;
    if (!b->per_layer && !b->trace)
        return CLI_OK;
    for (size_t i = 0; i < b->set.cases && !code; i++)
        code = bench_profile(&b->set.list[i], events, i);
    if (!code && b->trace)
        code = write_trace(b->trace, events);
    json_decref(events);
    return code;
}

/* ---- the command ---- */

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", NULL};
static const char *const checks[] = {"first", "every", "off", NULL};

static int read_options(struct bench *b)
{
    double minutes = 0;
    b->options.warmup = 1;
    b->options.time = 10;
    b->allowed = 5;
    b->output.format = b->request.common.json ? BENCH_JSONL : BENCH_TEXT;
    if (b->fail_above && !b->baseline)
        return cli_fail(CLI_USAGE,
                        "--fail-above %s needs --baseline FILE, the results to compare with",
                        b->fail_above);
    CLI_TRY(cli_number(&b->options.runs, "runs", b->runs, 1, 1000000));
    CLI_TRY(cli_number(&b->options.warmup, "warmup", b->warmup, 0, 1000000));
    CLI_TRY(cli_real(&b->options.time, "time", b->time, 0.01, 86400));
    CLI_TRY(cli_real(&b->options.rate, "rate", b->rate, 0.001, 1e5));
    CLI_TRY(cli_real(&minutes, "sustain", b->sustain, 0.001, 1e5));
    CLI_TRY(cli_real(&b->allowed, "fail-above", b->fail_above, 0, 1e6));
    CLI_TRY(cli_choose(&b->options.check, "verify", b->check, checks));
    CLI_TRY(cli_choose(&b->output.format, "format", b->format, formats));
    b->options.sustain = 60 * minutes;
    return CLI_OK;
}

/* Checks options whose errors would otherwise show only after the measurement. */
static int check_files(struct bench *b)
{
    if (b->baseline)
        CLI_TRY(bench_results_read(&b->earlier, b->baseline));
    CLI_TRY(bench_output_check("-O", b->output.path));
    return bench_output_check("--trace", b->trace);
}

static int load_model(bench_request *r)
{
    fovea_linear_attention_params linear = {0};
    CLI_TRY(cli_linear_form(&linear, &r->common));
    return cli_load_model(&r->model, r->name, r->common.prefix, &linear);
}

/* Selects kernels by name or operation, for the steps of a model. */
static int choose_kernels(bench_request *r, const char *kernel)
{
    if (!kernel && !r->op)
        return cli_fail(CLI_USAGE, "bench kernel needs a part of a kernel's name, or --op; fovea "
                                   "info --kernels lists the names");
    r->kernel = kernel;
    r->name = r->of ? r->of : KERNEL_MODEL;
    return load_model(r);
}

static int choose_what(bench_request *r, const char *what, const char *name)
{
    int chosen = 0;
    while (bench_what_names[chosen] && strcmp(bench_what_names[chosen], what) != 0)
        chosen++;
    if (!bench_what_names[chosen])
        return cli_fail(
            CLI_UNSUPPORTED,
            "bench %s is unknown; use gemm, attention, block, model, lm, kernel or floors", what);
    r->what = (enum bench_what)chosen;
    if (r->what == BENCH_KERNEL)
        return choose_kernels(r, name);
    r->name = name;
    const bool model = r->what == BENCH_MODEL || r->what == BENCH_FLOORS || r->what == BENCH_LM;
    if (model && !name)
        return cli_fail(CLI_USAGE, "bench %s needs a MODEL", what);
    if (!model && r->what != BENCH_BLOCK && name)
        return cli_fail(CLI_USAGE, "bench %s takes no argument \"%s\"; see --help", what, name);
    return name ? load_model(r) : CLI_OK;
}

/* Checks options that apply only to some kinds of cases. */
static int check_options(const struct bench *b)
{
    const bench_request *r = &b->request;
    const unsigned traced = BENCH_ANY & ~(1u << BENCH_KERNEL);
    const unsigned of_models =
        1u << BENCH_MODEL | 1u << BENCH_BLOCK | 1u << BENCH_KERNEL | 1u << BENCH_FLOORS;
    const struct {
        const char *option;
        bool given;
        unsigned whats; /* bit k: the option applies to kind k */
    } options[] = {
        {"causal", r->causal, 1u << BENCH_ATTENTION},
        {"op", r->op != NULL, 1u << BENCH_KERNEL},
        {"model", r->of != NULL, 1u << BENCH_KERNEL},
        {"per-layer", b->per_layer, traced},
        {"trace", b->trace != NULL, traced},
        {"nala-lambda", r->common.nala_lambda != NULL, of_models},
        {"pola-alpha", r->common.pola_alpha != NULL, of_models},
        {"q-scale", r->common.q_scale != NULL, of_models},
        {"linear-heads", r->common.linear_heads != NULL, of_models},
        {"rate", b->rate != NULL, BENCH_ANY & ~(1u << BENCH_FLOORS)},
        {"sustain", b->sustain != NULL, BENCH_ANY & ~(1u << BENCH_FLOORS)},
    };
    CLI_TRY(bench_axes_check(r));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            CLI_TRY(bench_belongs(options[i].option, options[i].whats, r->what));
    return CLI_OK;
}

/* Refuses requests for which `bench floors` cannot compute lower bounds. */
static int check_floors(const struct bench *b)
{
    const cli_common *common = &b->request.common;
    if (b->set.cases > 1)
        return cli_fail(CLI_USAGE, "bench floors measures only one size, attention and setting at "
                                   "a time; shorten the lists");
    if (common->dtype && strcmp(common->dtype, "f32") != 0)
        return cli_fail(CLI_UNSUPPORTED,
                        "bench floors --dtype %s is not possible, because single products have f32 "
                        "weights; leave out --dtype",
                        common->dtype);
    if (!b->set.list[0].on->cpu)
        return cli_fail(CLI_UNSUPPORTED,
                        "bench floors --device %s is not possible, because a single step on "
                        "another device than the CPU would also copy its operands; use the CPU",
                        common->device);
    return CLI_OK;
}

static int measure(struct bench *b)
{
    bench_set *set = &b->set;
    if (b->options.rate > 0 || b->options.sustain > 0)
        return bench_pace(set->list, set->cases, &b->options);
    return bench_measure(set->list, set->cases, &b->options);
}

static int run(struct bench *b, const char *what, const char *name)
{
    CLI_TRY(choose_what(&b->request, what, name));
    CLI_TRY(check_options(b));
    CLI_TRY(check_files(b));
    interrupt_catch("run");
    const bool floors = b->request.what == BENCH_FLOORS;
    b->request.common.stores_int8 = b->request.what != BENCH_ATTENTION;
    b->request.common.fast = b->request.what == BENCH_MODEL;
    if (b->request.what == BENCH_GEMM)
        b->request.common.half = NULL;
    CLI_TRY(bench_cases_add(&b->set, &b->request, &b->options));
    if (floors && !interrupt_code()) {
        b->options.sample = FLOOR_SAMPLE;
        CLI_TRY(check_floors(b));
        CLI_TRY(bench_floors_add(&b->floors, b->set.list, &b->set.cases, BENCH_CASES));
    }
    CLI_TRY(measure(b));
    if (!interrupt_code())
        CLI_TRY(profile(b));
    json_t *results = describe_all(b);
    const int code = interrupt_code() ? report_interrupted(b, results) : report(b, results);
    json_decref(results);
    return code;
}

/* Shows results of an earlier run instead of measuring. */
static int show_from(struct bench *b)
{
    json_t *results;
    CLI_TRY(check_files(b));
    CLI_TRY(bench_results_read(&results, b->from));
    const int code = report(b, results);
    json_decref(results);
    return code;
}

static void release(struct bench *b)
{
    json_decref(b->earlier);
    bench_floors_free(&b->floors);
    bench_cases_free(&b->set);
    fovea_model_free(b->request.model);
    free(b);
}

static const char lists[] =
    "\nOptions that define the cases take lists, and options with numbers also take ranges:\n"
    "--size 224,518, --tokens 64..16384*2, --device all. Every combination is run.\n"
    "\nmodel, lm and floors need a MODEL; block and kernel accept one. The columns are\n"
    "  ratio    the median time (p50) divided by that of the first case\n"
    "  ci       the 95 % confidence interval of the median, in percent\n"
    "  of peak  the shortest time that the device allows, as a share of p50\n"
    "  verify   the largest error divided by the largest value\n"
    "A status is unstable if ci exceeds 1 %, noisy if p95 exceeds 1.5 times p50, and throttled if\n"
    "the processor became slower.\n";

int cli_bench(const cli_command *self, int argc, char **argv)
{
    struct bench *b = cli_alloc(1, sizeof *b);
    bench_request *r = &b->request;
    const cli_option own[] = {
        {"shape", 0, "MxNxK,...",
         "gemm: numbers of rows, outputs and inputs (default: the products of a ViT-B on 1036x1036 "
         "pixels)",
         &r->shapes},
        {"activation", 0, "NAME,...", "gemm: activation of the epilogue: none"
#define FV_ACTIVATION(NAME, name, ...) ", " #name
#include "act/activations.inc"
#undef FV_ACTIVATION
         ,
         &r->activation},
        {"tokens", 0, "N,...",
         "attention, block: number of tokens (default 4096); lm: number of tokens before the "
         "measured ones; also ranges such as 256..65536*2 or 100..500+100",
         &r->tokens},
        {"phase", 0, "NAME,...", "lm: prefill or decode (default decode)", &r->phase},
        {"rows", 0, "N,...", "lm: tokens of a prefill (default 256)", &r->rows},
        {"batch", 0, "N,...",
         "model: frames per run (default 1); times are for all frames of a run", &r->batch},
        {"heads", 0, "N,...", "attention, block: number of heads (default 12)", &r->heads},
        {"dim", 0, "N,...",
         "attention: channels per head (default 64); block: channels per token (default 768)",
         &r->dim},
        {"value-dim", 0, "N,...", "attention: channels per head of the values (default: --dim)",
         &r->value_dim},
        {"mlp", 0, "N,...", "block: width of the MLP relative to that of a token (default 4)",
         &r->mlp},
        {"op", 0, "NAME", "kernel: operation whose kernels are measured: gemm, softmax, ...",
         &r->op},
        {"model", 0, "MODEL", "kernel: model whose steps are run (default " KERNEL_MODEL ")",
         &r->of},
        {"causal", 0, NULL, "attention: query i sees only the keys up to i", &r->causal},
        {"form", 0, "NAME,...",
         "form of causal attention (lm, and attention with --causal): auto, recurrent, chunk",
         &r->form},
        {"runs", 0, "N", "number of rounds (default: until the medians are stable)", &b->runs},
        {"time", 0, "S", "time limit per case, in seconds (default 10)", &b->time},
        {"warmup", 0, "N", "number of untimed runs after the first (default 1)", &b->warmup},
        {"verify", 0, "WHEN",
         "when to verify results: first (the first run, default), every (every run), or off",
         &b->check, .choices = checks},
        {"rate", 0, "FPS", "run at the frame rate of a camera; reports missed deadlines and jitter",
         &b->rate},
        {"sustain", 0, "MIN", "run each case for MIN minutes; reports a time series", &b->sustain},
        {"per-layer", 0, NULL, "report the time of every step and sweep", &b->per_layer},
        {"trace", 0, "FILE", "write the kernel calls of one frame for Chrome's trace viewer",
         &b->trace},
        {"format", 'o', "NAME", "format of the results: text, md, csv, json, jsonl", &b->format,
         .choices = formats},
        {"output", 'O', "FILE", "file to write results to", &b->output.path},
        {"note", 0, "TEXT", "text to store with the results", &b->note},
        {"from", 0, "FILE",
         "show the results in FILE, which an earlier -o json or jsonl wrote, and measure nothing",
         &b->from},
        {"baseline", 0, "FILE", "file with earlier results to compare with", &b->baseline},
        {"fail-above", 0, "PCT",
         "percent by which results may be slower than the baseline (default 5)", &b->fail_above},
        {NULL},
    };
    r->common.half =
        "type of a model's weights, or of q, k and v: f32, f16, bf16; for weights also int8";
    r->common.products = CLI_COMPUTE_HELP "; without a model the default is f32";
    r->common.more = lists;
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    if (!code && first) {
        if ((first == argc && !b->from) || first + 2 < argc)
            code =
                cli_fail(CLI_USAGE, "bench takes gemm, attention, block [MODEL], kernel [NAME], or "
                                    "model, lm or floors and a MODEL; see fovea bench --help");
        else if (b->from && first < argc)
            code = cli_fail(
                CLI_USAGE,
                "--from %s shows the results of a file; leave out %s, which would be measured",
                b->from, argv[first]);
        else if (!(code = read_options(b)))
            code = b->from ? show_from(b)
                           : run(b, argv[first], first + 1 < argc ? argv[first + 1] : NULL);
    }
    release(b);
    return code;
}
