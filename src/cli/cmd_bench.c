/* cmd_bench.c: `fovea bench`: the product of all lists of options, verified and then timed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_floors.h"
#include "bench_results.h"

enum { CASES = 256, DEVICES = 64 };

/* Those of a ViT-B on 1036x1036 pixels: Q and projection, K with V, the two of the MLP. */
#define SHAPES "5477x768x768,5477x1536x768,5477x3072x768,5477x768x3072"

enum what { GEMM, ATTENTION, MODEL, FLOORS, WHATS };
static const char *const what_names[WHATS] = {"gemm", "attention", "model", "floors"};

/* Seconds of a step alone: a disturbance then meets it as it does the whole model. */
#define FLOOR_SAMPLE 10e-3

struct bench {
    cli_common common;
    enum what what;
    const char *shapes, *activation, *runs, *time, *warmup, *baseline, *fail_above;
    const char *plot, *from;
    bench_attention_options attention;
    bench_options options;
    double allowed; /* percent over the baseline */

    const char *model_name;
    fovea_model *model;
    bench_device device[DEVICES];
    size_t devices;
    bench_case list[CASES];
    size_t cases;
    uint64_t allocations;
    bench_floors floors;
};

/* ---- the cases ---- */

static int open_device(bench_device **out, struct bench *b, const cli_settings *s)
{
    char *key =
        cli_text("%s|%s|%u|%s", s->device, s->device_options.isa ? s->device_options.isa : "",
                 s->device_options.threads, s->device_options.cores ? s->device_options.cores : "");
    for (size_t i = 0; i < b->devices; i++)
        if (strcmp(b->device[i].key, key) == 0) {
            free(key);
            *out = &b->device[i];
            return CLI_OK;
        }
    bench_device *d = &b->device[b->devices];
    int code = b->devices == DEVICES
                   ? cli_fail(CLI_USAGE, "more than %d devices and settings at once", DEVICES)
                   : cli_open_device(&d->device, s);
    if (code) {
        free(key);
        return code;
    }
    d->key = key;
    b->devices++;
    fovea_device_info info;
    fovea_device_describe(d->device, &info);
    snprintf(d->isa, sizeof d->isa, "%s", info.features);
    d->cpu = strcmp(info.id, "cpu") == 0;
    if (d->cpu)
        snprintf(d->where, sizeof d->where, "%u threads", fovea_device_threads(d->device));
    else
        snprintf(d->where, sizeof d->where, "%s", info.id);
    if (d->cpu)
        bench_limits_measure(&d->limits, d->isa, fovea_device_threads(d->device));
    *out = d;
    return bench_gemm_rate(&d->limits.gemm, d->device);
}

/* The axes of the product, slowest first, one value of each. */
enum axis {
    SIZE,
    TOKENS,
    ATTENTION_NAME,
    HEADS,
    DIM,
    VALUE_DIM,
    DTYPE,
    FORM,
    THREADS,
    SCHEDULE,
    CHUNK,
    ISA,
    DEVICE,
    SHAPE,
    ACTIVATION,
    AXES
};

static int make_case(bench_case *c, const struct bench *b, const cli_settings *s, bench_device *on,
                     const char *const value[AXES])
{
    const bench_attention_options attention = {.tokens = value[TOKENS],
                                               .heads = value[HEADS],
                                               .dim = value[DIM],
                                               .value_dim = value[VALUE_DIM],
                                               .form = value[FORM],
                                               .causal = b->attention.causal};
    switch (b->what) {
    case GEMM:
        return bench_gemm(c, s, on, value[SHAPE], value[ACTIVATION]);
    case ATTENTION:
        return bench_attention(c, s, on, &attention);
    default:
        return bench_model(c, s, on, b->model, b->model_name);
    }
}

static int add_case(struct bench *b, const char *const value[AXES])
{
    cli_common common = b->common;
    common.size = value[SIZE];
    common.attention = value[ATTENTION_NAME];
    common.dtype = value[DTYPE];
    common.threads = value[THREADS];
    common.schedule = value[SCHEDULE];
    common.chunk = value[CHUNK];
    common.isa = value[ISA];
    common.device = value[DEVICE];
    cli_settings s;
    bench_device *on;
    int code = cli_settle(&s, &common);
    if (code || (code = open_device(&on, b, &s)))
        return code;
    if (b->cases == CASES)
        return cli_fail(CLI_USAGE, "more than %d cases at once; shorten the lists", CASES);
    bench_case *c = &b->list[b->cases];
    code = make_case(c, b, &s, on, value);
    if (code)
        return code;
    b->cases++;
    if ((code = bench_first(c)))
        return code;
    if (on->cpu)
        json_object_set_new(c->params, "threads", json_integer(c->plan.threads));
    else
        json_object_set_new(c->params, "device", json_string(on->where));
    json_object_set_new(c->params, "schedule",
                        json_string(common.schedule ? common.schedule : "auto"));
    json_object_set_new(c->params, "chunk", json_integer(s.chunk));
    if (common.isa)
        json_object_set_new(c->params, "isa", json_string(common.isa));
    return CLI_OK;
}

/* One list per axis, walked like the digits of a number. */
static int add_cases(struct bench *b)
{
    const cli_common *c = &b->common;
    const bench_attention_options *a = &b->attention;
    const struct {
        const char *option, *text;
    } axis[AXES] = {
        [SIZE] = {"size", c->size},
        [TOKENS] = {"tokens", a->tokens},
        [ATTENTION_NAME] = {"attention", c->attention},
        [HEADS] = {"heads", a->heads},
        [DIM] = {"dim", a->dim},
        [VALUE_DIM] = {"value-dim", a->value_dim},
        [DTYPE] = {"dtype", c->dtype},
        [FORM] = {"form", a->form},
        [THREADS] = {"threads", c->threads},
        [SCHEDULE] = {"schedule", c->schedule},
        [CHUNK] = {"chunk", c->chunk},
        [ISA] = {"isa", c->isa},
        [DEVICE] = {"device", c->device},
        [SHAPE] = {"shape", b->what == GEMM ? b->shapes : NULL},
        [ACTIVATION] = {"activation", b->what == GEMM ? b->activation : NULL},
    };
    char **list[AXES] = {NULL};
    size_t n[AXES] = {0}, total = 1;
    int code = CLI_OK;
    for (int i = 0; i < AXES && !code; i++)
        code = cli_list(&list[i], &n[i], axis[i].option, axis[i].text);
    for (int i = 0; i < AXES && !code; i++)
        total *= n[i];
    for (size_t k = 0; k < total && !code; k++) {
        const char *value[AXES];
        size_t rest = k;
        for (int i = AXES - 1; i >= 0; i--) {
            value[i] = list[i][rest % n[i]];
            rest /= n[i];
        }
        code = add_case(b, value);
    }
    for (int i = 0; i < AXES; i++)
        cli_list_free(list[i]);
    return code;
}

/* ---- results ---- */

/* Seconds that the physics of this machine asks for. */
static double floor_seconds(const bench_case *c)
{
    const bench_limits *l = &c->on->limits;
    return fmax(c->flops / fmax(l->fma, l->gemm), c->bytes / fmax(l->read, l->copy));
}

/* All of it, the weights too. */
static uint64_t promised(const fovea_plan_info *p)
{
    return p->weights + p->residual + p->states + p->chunks + p->scratch + p->staging;
}

/* What would be the floor on a device whose memory nobody measured is not told. */
static json_t *roofline(const bench_case *c, double p50)
{
    const bench_limits *l = &c->on->limits;
    if (!c->on->cpu)
        return json_pack("{s:n, s:n, s:f, s:f, s:n, s:f, s:n, s:n}", "fraction", "floor_ms",
                         "flops", c->flops, "bytes", c->bytes, "fma_gflops", "gemm_gflops",
                         l->gemm * 1e-9, "read_gbs", "copy_gbs");
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "fraction", floor_seconds(c) / p50,
                     "floor_ms", floor_seconds(c) * 1e3, "flops", c->flops, "bytes", c->bytes,
                     "fma_gflops", l->fma * 1e-9, "gemm_gflops", l->gemm * 1e-9, "read_gbs",
                     l->read * 1e-9, "copy_gbs", l->copy * 1e-9);
}

static json_t *describe(const bench_case *c, uint64_t allocations)
{
    const double p50 = bench_quantile(c, 0.5);
    json_t *samples = json_array(), *peak = cli_plan_bytes(&c->plan);
    for (size_t i = 0; i < c->samples; i++)
        json_array_append_new(samples, json_integer((json_int_t)(c->sample[i] * 1e9 + 0.5)));
    json_object_set_new(peak, "promised", json_integer((json_int_t)promised(&c->plan)));
    json_object_set_new(peak, "resident", json_integer((json_int_t)c->resident));
    json_t *root =
        json_pack("{s:s, s:s, s:o, s:o, s:O, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:I, s:f, s:f}",
                  "schema", "fovea.bench/1", "title", c->title, "build", cli_build(), "env",
                  cli_environment(c->on->device), "params", c->params, "p50_ms", p50 * 1e3,
                  "p95_ms", bench_quantile(c, 0.95) * 1e3, "p99_ms", bench_quantile(c, 0.99) * 1e3,
                  "gflops", c->flops / p50 * 1e-9, "gbs", c->bytes / p50 * 1e-9, "roofline",
                  roofline(c, p50), "peak_bytes", peak, "allocations", (json_int_t)allocations,
                  "plan_ms", c->plan_seconds * 1e3, "first_ms", c->first_seconds * 1e3);
    json_object_set_new(root, "verify",
                        json_pack("{s:f, s:f, s:b}", "max_abs", c->verify.max_abs, "rel",
                                  c->verify.rel, "ok", c->verify.ok));
    json_object_set_new(root, "status", json_string(c->stable ? "ok" : "unstable"));
    json_object_set_new(root, "samples_ns", samples);
    return root;
}

/* Compares with the lines of an earlier --json run; cases that it does not hold are passed over. */
static int compare(const struct bench *b)
{
    char line[1 << 16];
    int code = CLI_OK;
    FILE *f = fopen(b->baseline, "r");
    if (!f)
        return cli_fail(CLI_INPUT, "%s: cannot be opened", b->baseline);
    while (fgets(line, sizeof line, f)) {
        json_t *old = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const double was = json_number_value(json_object_get(old, "p50_ms"));
        for (size_t i = 0; i < b->cases && was > 0; i++) {
            const double is = bench_quantile(&b->list[i], 0.5) * 1e3;
            if (json_equal(json_object_get(old, "params"), b->list[i].params) &&
                is > was * (1 + b->allowed / 100))
                code = cli_fail(CLI_SLOWER, "%s: %.3f ms, the baseline has %.3f ms",
                                b->list[i].title, is, was);
        }
        json_decref(old);
    }
    fclose(f);
    return code;
}

/* Prints and plots results; the array is given up. */
static int show(const struct bench *b, json_t *results)
{
    size_t i;
    json_t *r;
    if (b->common.json)
        json_array_foreach(results, i, r) cli_print_json(json_incref(r));
    else
        bench_results_show(results);
    int code = b->plot ? bench_plot(b->plot, results) : CLI_OK;
    json_decref(results);
    return code;
}

static int report(const struct bench *b)
{
    bool stable = true;
    json_t *results = json_array();
    for (size_t i = 0; i < b->cases; i++) {
        stable = stable && b->list[i].stable;
        json_array_append_new(results, describe(&b->list[i], b->allocations));
    }
    int code = show(b, results);
    if (!b->common.json)
        printf("\nallocations while timed: %llu\n", (unsigned long long)b->allocations);
    if (!b->common.json && b->what == ATTENTION)
        bench_attention_crossovers(b->list, b->cases);
    if (!code && b->baseline)
        code = compare(b);
    if (!code && !stable && (b->common.strict || b->baseline))
        return cli_fail(CLI_UNSTABLE, "a median did not settle; try --time or a quieter machine");
    return code;
}

static void report_floors(const struct bench *b)
{
    if (!b->common.json) {
        bench_floors_show(&b->floors, b->list);
        return;
    }
    json_t *root = describe(&b->list[0], b->allocations);
    json_object_set_new(root, "floors", bench_floors_describe(&b->floors, b->list));
    cli_print_json(root);
}

/* ---- the command ---- */

static int read_options(struct bench *b)
{
    int code;
    b->options.warmup = 1;
    b->options.time = 10;
    b->allowed = 5;
    if (b->plot && !cli_ends_with(b->plot, ".svg"))
        return cli_fail(CLI_USAGE, "--plot %s: the file is a .svg", b->plot);
    if ((code = cli_number(&b->options.runs, "runs", b->runs, 1, 1000000)) ||
        (code = cli_number(&b->options.warmup, "warmup", b->warmup, 0, 1000000)) ||
        (code = cli_real(&b->options.time, "time", b->time, 0.01, 86400)) ||
        (code = cli_real(&b->allowed, "fail-above", b->fail_above, 0, 1e6)))
        return code;
    return CLI_OK;
}

static int choose_what(struct bench *b, const char *what, const char *model)
{
    while (b->what < WHATS && strcmp(what_names[b->what], what) != 0)
        b->what++;
    if (b->what == WHATS)
        return cli_fail(CLI_UNSUPPORTED,
                        "bench %s: there are gemm, attention, model and floors so far", what);
    if (b->what != MODEL && b->what != FLOORS)
        return model ? cli_fail(CLI_USAGE, "bench %s takes no argument \"%s\"; see --help", what,
                                model)
                     : CLI_OK;
    if (!model)
        return cli_fail(CLI_USAGE, "bench %s takes a MODEL", what);
    b->model_name = model;
    return cli_load_model(&b->model, model);
}

static int run(struct bench *b, const char *what, const char *model)
{
    if (b->from) {
        json_t *results;
        int code = bench_results_read(&results, b->from);
        return code ? code : show(b, results);
    }
    int code = choose_what(b, what, model);
    if (code)
        return code;
    if (b->what == GEMM)
        b->common.half = NULL;
    if (b->what == ATTENTION && !b->common.attention)
        b->common.attention = "softmax,linear";
    code = add_cases(b);
    if (!code && b->what == FLOORS && b->cases > 1)
        code = cli_fail(CLI_USAGE, "bench floors takes one size, attention and setting at a time");
    if (!code && b->what == FLOORS && b->common.dtype && strcmp(b->common.dtype, "f32") != 0)
        code = cli_fail(CLI_UNSUPPORTED,
                        "bench floors --dtype %s: a product alone has f32 weights so far",
                        b->common.dtype);
    if (!code && b->what == FLOORS && !b->list[0].on->cpu)
        code = cli_fail(CLI_UNSUPPORTED,
                        "bench floors --device %s: a step alone would bring its operands there and "
                        "back, which inside a model it does not; the CPU only so far",
                        b->common.device);
    if (b->what == FLOORS)
        b->options.sample = FLOOR_SAMPLE;
    if (!code && b->what == FLOORS)
        code = bench_floors_add(&b->floors, b->list, &b->cases, CASES);
    if (!code)
        code = bench_measure(b->list, b->cases, &b->options, &b->allocations);
    for (size_t i = 0; i < b->devices && !code; i++)
        code = bench_gemm_rate(&b->device[i].limits.gemm, b->device[i].device);
    if (code || b->what != FLOORS)
        return code ? code : report(b);
    report_floors(b);
    return CLI_OK;
}

static void release(struct bench *b)
{
    for (size_t i = 0; i < b->cases; i++) {
        b->list[i].release(b->list[i].state);
        json_decref(b->list[i].params);
        free(b->list[i].title);
        free(b->list[i].sample);
    }
    bench_floors_free(&b->floors);
    fovea_model_free(b->model);
    for (size_t i = 0; i < b->devices; i++) {
        for (size_t k = 0; k < BENCH_DTYPES; k++)
            fovea_plan_free(b->device[i].anchor[k]);
        fovea_device_close(b->device[i].device);
        free(b->device[i].key);
    }
    free(b);
}

int cli_bench(const cli_command *self, int argc, char **argv)
{
    struct bench *b = cli_alloc(1, sizeof *b);
    b->shapes = SHAPES;
    const cli_option own[] = {
        {"shape", 0, "MxNxK,...", "gemm: " SHAPES, CLI_TEXT, &b->shapes},
        {"activation", 0, "NAME,...", "gemm: none, gelu, gelu_tanh, gelu_quick, silu, relu, tanh",
         CLI_TEXT, &b->activation},
        {"tokens", 0, "N,...", "attention: 4096; ranges as 256..65536*2 or 100..500+100", CLI_TEXT,
         &b->attention.tokens},
        {"heads", 0, "N,...", "attention: 12", CLI_TEXT, &b->attention.heads},
        {"dim", 0, "N,...", "attention: channels of a head, 64", CLI_TEXT, &b->attention.dim},
        {"value-dim", 0, "N,...", "attention: the same of the values", CLI_TEXT,
         &b->attention.value_dim},
        {"causal", 0, NULL, "attention: query i sees the keys up to i", CLI_FLAG,
         &b->attention.causal},
        {"form", 0, "NAME,...", "attention, causal: auto, recurrent, chunk", CLI_TEXT,
         &b->attention.form},
        {"runs", 0, "N", "rounds; else until the medians are stable", CLI_TEXT, &b->runs},
        {"time", 0, "S", "seconds per case at most, 10", CLI_TEXT, &b->time},
        {"warmup", 0, "N", "runs after the first that are not timed, 1", CLI_TEXT, &b->warmup},
        {"plot", 0, "FILE", "model, attention: time and memory as a picture, .svg", CLI_TEXT,
         &b->plot},
        {"from", 0, "FILE", "show results of an earlier --json, measure nothing", CLI_TEXT,
         &b->from},
        {"baseline", 0, "FILE", "results of an earlier --json to compare with", CLI_TEXT,
         &b->baseline},
        {"fail-above", 0, "PCT", "percent that may be lost against it, 5", CLI_TEXT,
         &b->fail_above},
        {NULL, 0, NULL, NULL, CLI_FLAG, NULL},
    };
    b->common.half = "f32, f16, bf16: of a model's weights; of q, k and v";
    int first, code = cli_parse(&first, self, &b->common, own, argc, argv);
    if (!code && first) {
        if ((first == argc && !b->from) || first + 2 < argc)
            code = cli_fail(
                CLI_USAGE,
                "bench takes gemm, attention, or model or floors and a MODEL; fovea bench --help");
        else if (!(code = read_options(b)))
            code = run(b, first < argc ? argv[first] : NULL,
                       first + 1 < argc ? argv[first + 1] : NULL);
    }
    release(b);
    return code;
}
