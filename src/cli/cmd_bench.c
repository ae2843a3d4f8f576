/* cmd_bench.c: `fovea bench`: the product of all lists of options, verified and then timed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { CASES = 256, DEVICES = 64 };

/* Those of a ViT-B on 1036x1036 pixels: Q and projection, K with V, the two of the MLP. */
#define SHAPES "5477x768x768,5477x1536x768,5477x3072x768,5477x768x3072"

enum what { GEMM, ATTENTION, MODEL, WHATS };
static const char *const what_names[WHATS] = {"gemm", "attention", "model"};

struct bench {
    cli_common common;
    enum what what;
    const char *shapes, *activation, *runs, *time, *warmup, *baseline, *fail_above;
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
    if ((code = c->run(c->state))) /* touches what the plan promised */
        return code;
    const uint64_t peak = bench_memory_peak();
    c->resident = peak > c->before ? peak - c->before : 0;
    json_object_set_new(c->params, "threads", json_integer(c->plan.threads));
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

static uint64_t promised(const fovea_plan_info *p)
{
    return p->weights + p->residual + p->states + p->chunks + p->scratch + p->staging;
}

static json_t *roofline(const bench_case *c, double p50)
{
    const bench_limits *l = &c->on->limits;
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
        json_pack("{s:s, s:o, s:o, s:O, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:I, s:f, s:f}",
                  "schema", "fovea.bench/1", "build", cli_build(), "env",
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

static void show(const struct bench *b)
{
    fovea_device_info info;
    int width = 20;
    for (size_t i = 0; i < b->devices; i++) {
        const bench_limits *l = &b->device[i].limits;
        fovea_device_describe(b->device[i].device, &info);
        printf("%s %s, %s, %u threads: fma %.1f GFLOP/s, gemm %.1f GFLOP/s, read %.1f GB/s, copy "
               "%.1f GB/s\n",
               info.id, info.name, info.features, fovea_device_threads(b->device[i].device),
               l->fma * 1e-9, l->gemm * 1e-9, l->read * 1e-9, l->copy * 1e-9);
    }
    for (size_t i = 0; i < b->cases; i++)
        width = (int)strlen(b->list[i].title) > width ? (int)strlen(b->list[i].title) : width;
    printf("\n%-*s %3s %8s %9s %9s %9s %5s %6s %9s %6s %10s %10s  %s\n", width, "case", "thr",
           "schedule", "p50 ms", "p95 ms", "p99 ms", "runs", "ratio", "GFLOP/s", "roof", "promised",
           "resident", "verify");
    const double first = bench_quantile(&b->list[0], 0.5);
    for (size_t i = 0; i < b->cases; i++) {
        const bench_case *c = &b->list[i];
        const double p50 = bench_quantile(c, 0.5);
        char plan[32], seen[32];
        printf("%-*s %3u %8s %9.3f %9.3f %9.3f %5zu %6.2f %9.1f %5.1f%% %10s %10s  %.1e%s\n", width,
               c->title, c->plan.threads, json_string_value(json_object_get(c->params, "schedule")),
               p50 * 1e3, bench_quantile(c, 0.95) * 1e3, bench_quantile(c, 0.99) * 1e3, c->samples,
               p50 / first, c->flops / p50 * 1e-9, 100 * floor_seconds(c) / p50,
               cli_bytes(plan, sizeof plan, promised(&c->plan)),
               cli_bytes(seen, sizeof seen, c->resident), c->verify.rel,
               c->stable ? "" : "  unstable");
    }
    printf("\nallocations while timed: %llu\n", (unsigned long long)b->allocations);
    if (b->what == ATTENTION)
        bench_attention_crossovers(b->list, b->cases);
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

static int report(const struct bench *b)
{
    bool stable = true;
    for (size_t i = 0; i < b->cases; i++) {
        stable = stable && b->list[i].stable;
        if (b->common.json)
            cli_print_json(describe(&b->list[i], b->allocations));
    }
    if (!b->common.json)
        show(b);
    int code = b->baseline ? compare(b) : CLI_OK;
    if (!code && !stable && (b->common.strict || b->baseline))
        return cli_fail(CLI_UNSTABLE, "a median did not settle; try --time or a quieter machine");
    return code;
}

/* ---- the command ---- */

static int read_options(struct bench *b)
{
    int code;
    b->options.warmup = 1;
    b->options.time = 10;
    b->allowed = 5;
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
        return cli_fail(CLI_UNSUPPORTED, "bench %s: there are gemm, attention and model so far",
                        what);
    if (b->what != MODEL)
        return model ? cli_fail(CLI_USAGE, "bench %s takes no argument \"%s\"; see --help", what,
                                model)
                     : CLI_OK;
    if (!model)
        return cli_fail(CLI_USAGE, "bench model takes a MODEL");
    b->model_name = model;
    return cli_load_model(&b->model, model);
}

static int run(struct bench *b, const char *what, const char *model)
{
    int code = choose_what(b, what, model);
    if (code)
        return code;
    b->common.half = b->what == ATTENTION;
    if (b->what == ATTENTION && !b->common.attention)
        b->common.attention = "softmax,linear";
    code = add_cases(b);
    if (!code)
        code = bench_measure(b->list, b->cases, &b->options, &b->allocations);
    for (size_t i = 0; i < b->devices && !code; i++)
        code = bench_gemm_rate(&b->device[i].limits.gemm, b->device[i].device);
    return code ? code : report(b);
}

static void release(struct bench *b)
{
    for (size_t i = 0; i < b->cases; i++) {
        b->list[i].release(b->list[i].state);
        json_decref(b->list[i].params);
        free(b->list[i].title);
        free(b->list[i].sample);
    }
    fovea_model_free(b->model);
    for (size_t i = 0; i < b->devices; i++) {
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
        {"baseline", 0, "FILE", "results of an earlier --json to compare with", CLI_TEXT,
         &b->baseline},
        {"fail-above", 0, "PCT", "percent that may be lost against it, 5", CLI_TEXT,
         &b->fail_above},
        {NULL, 0, NULL, NULL, CLI_FLAG, NULL},
    };
    int first, code = cli_parse(&first, self, &b->common, own, argc, argv);
    if (!code && first) {
        if (first == argc || first + 2 < argc)
            code = cli_fail(
                CLI_USAGE, "bench takes gemm, attention, or model and a MODEL; fovea bench --help");
        else if (!(code = read_options(b)))
            code = run(b, argv[first], first + 1 < argc ? argv[first + 1] : NULL);
    }
    release(b);
    return code;
}
