/* bench_cases.c: makes a case for each combination of the options' lists, on each device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/interrupt.h"

const char *const bench_what_names[BENCH_WHATS + 1] = {"gemm",   "attention", "block", "model",
                                                       "kernel", "floors",    "lm",    NULL};

/* The matrix products of a ViT-B on 1036x1036 pixels: Q or projection, fused K and V, and the two
 * layers of the MLP. */
#define SHAPES "5477x768x768,5477x1536x768,5477x3072x768,5477x768x3072"

/* ---- devices ---- */

static int make_device(bench_device *d, const cli_settings *s)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    const double begin = cli_seconds();
    CLI_TRY(cli_open_device(&d->device, s));
    d->open_seconds = cli_seconds() - begin;
    fovea_device_describe(d->device, &info);
    memcpy(d->id, info.id, sizeof d->id);
    d->cpu = strcmp(info.id, "cpu") == 0;
    return CLI_OK;
}

static int open_device(bench_device **out, bench_set *set, const cli_settings *s)
{
    const fovea_device_options *o = &s->device_options;
    char *key = cli_text("%s|%s|%u|%s|%g", s->device, o->isa ? o->isa : "", o->threads,
                         o->cores ? o->cores : "", o->max_dispatch_seconds);
    size_t i = 0;
    while (i < set->devices && strcmp(set->device[i].key, key) != 0)
        i++;
    *out = &set->device[i];
    int code = CLI_OK;
    if (i == BENCH_DEVICES)
        code = cli_fail(CLI_USAGE,
                        "--device, --isa, --threads and --max-dispatch-ms make more than %d "
                        "combinations; shorten these lists",
                        BENCH_DEVICES);
    else if (i == set->devices)
        code = make_device(*out, s);
    if (code || i < set->devices)
        free(key);
    else
        set->device[set->devices++].key = key;
    return code;
}

/* ---- the product ---- */

enum { AXES = 24 };

struct axis_text {
    const char *option;
    const char **text; /* the request's field for the option's argument */
    unsigned whats; /* bit k: the option applies to benchmarks of kind k; 0 if it applies to all */
};

/* Lists the options in the order of loops, the outermost first. */
static void axes_of(struct axis_text out[AXES], bench_request *r)
{
    const unsigned gemm = 1u << BENCH_GEMM, attention = 1u << BENCH_ATTENTION,
                   block = 1u << BENCH_BLOCK, lm = 1u << BENCH_LM,
                   models = BENCH_ANY & ~(gemm | attention | block | lm);
    const struct axis_text axes[AXES] = {
        {"size", &r->common.size, models},
        {"batch", &r->batch, 1u << BENCH_MODEL},
        {"tokens", &r->tokens, attention | block | lm},
        {"phase", &r->phase, lm},
        {"rows", &r->rows, lm},
        {"attention", &r->common.attention, BENCH_ANY & ~(gemm | lm)},
        {"heads", &r->heads, attention | block},
        {"dim", &r->dim, attention | block},
        {"value-dim", &r->value_dim, attention},
        {"mlp", &r->mlp, block},
        {"dtype", &r->common.dtype},
        {"compute", &r->common.compute},
        {"form", &r->form, attention | lm},
        {"threads", &r->common.threads},
        {"schedule", &r->common.schedule},
        {"chunk", &r->common.chunk},
        {"memory-limit", &r->common.memory_limit},
        {"max-dispatch-ms", &r->common.max_dispatch},
        {"rigor", &r->common.rigor},
        {"isa", &r->common.isa},
        {"wisdom", &r->common.wisdom},
        {"device", &r->common.device},
        {"shape", &r->shapes, gemm},
        {"activation", &r->activation, gemm},
    };
    memcpy(out, axes, sizeof axes);
}

int bench_belongs(const char *option, unsigned whats, enum bench_what what)
{
    char others[64] = "";
    if (whats & 1u << what)
        return CLI_OK;
    for (int i = 0; i < BENCH_WHATS; i++)
        if (whats & 1u << i)
            snprintf(others + strlen(others), sizeof others - strlen(others), "%s%s",
                     *others ? ", " : "", bench_what_names[i]);
    return cli_fail(CLI_USAGE, "bench %s has no --%s; the option is for %s", bench_what_names[what],
                    option, others);
}

int bench_axes_check(const bench_request *r)
{
    bench_request copy = *r;
    struct axis_text axis[AXES];
    axes_of(axis, &copy);
    for (int i = 0; i < AXES; i++)
        if (axis[i].whats && *axis[i].text)
            CLI_TRY(bench_belongs(axis[i].option, axis[i].whats, r->what));
    return CLI_OK;
}

static int (*const make_case[BENCH_WHATS])(bench_case *, const cli_settings *,
                                           const bench_request *) = {
    [BENCH_GEMM] = bench_gemm,   [BENCH_ATTENTION] = bench_attention, [BENCH_BLOCK] = bench_block,
    [BENCH_MODEL] = bench_model, [BENCH_KERNEL] = bench_kernel,       [BENCH_FLOORS] = bench_model,
    [BENCH_LM] = bench_lm,
};

void bench_case_free(bench_case *c)
{
    if (c->release)
        c->release(c);
    fovea_plan_free(c->plan);
    json_decref(c->params);
    json_decref(c->pace);
    json_decref(c->profile);
    free(c->title);
    free(c->sample);
    free(c->device);
}

/* Adds the parameters that every kind of case has. */
static void add_params(bench_case *c, const cli_settings *s, const bench_request *r)
{
    if (c->on->cpu)
        json_object_set_new(c->params, "threads", json_integer(c->info.threads));
    else
        json_object_set_new(c->params, "device", json_string(c->on->id));
    json_object_set_new(c->params, "compute", json_string(cli_compute_name(c->info.compute)));
    json_object_set_new(c->params, "schedule",
                        json_string(r->common.schedule ? r->common.schedule : "auto"));
    json_object_set_new(c->params, "chunk", json_integer(s->chunk));
    const struct {
        const char *key, *text;
    } given[] = {{"isa", r->common.isa},
                 {"memory_limit", r->common.memory_limit},
                 {"max_dispatch_ms", r->common.max_dispatch},
                 {"wisdom", r->common.wisdom},
                 {"rigor", r->common.rigor}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].text)
            json_object_set_new(c->params, given[i].key, json_string(given[i].text));
}

static int add_case(bench_set *set, const bench_request *r, const bench_options *o,
                    const cli_settings *s, bench_device *on)
{
    if (set->cases == BENCH_CASES)
        return cli_fail(CLI_USAGE, "there are more than %d cases; shorten the lists", BENCH_CASES);
    bench_case *c = &set->list[set->cases];
    memset(c, 0, sizeof *c);
    c->on = on;
    int code = make_case[r->what](c, s, r);
    const bool made = !code;
    if (made) {
        add_params(c, s, r);
        code = bench_first(c, o);
    }
    if (!made || code == CLI_UNSUPPORTED || code == CLI_DEVICE || code == CLI_INPUT)
        bench_case_free(c);
    else
        set->cases++;
    return code;
}

/* Adds a case for each selected kernel on each step that it supports. */
static int add_kernels(bench_set *set, const bench_request *r, const bench_options *o,
                       const cli_settings *s, bench_device *on)
{
    enum { PICKS = 4096 };
    bench_kernel_pick *pick = cli_alloc(PICKS, sizeof *pick);
    bench_request one = *r;
    const size_t before = set->cases;
    size_t n = 0;
    int code = bench_kernel_picks(pick, PICKS, &n, s, on, r);
    for (size_t i = 0; i < n && !code && !interrupt_code(); i++) {
        one.pick = &pick[i];
        code = add_case(set, &one, o, s, on);
        code = code == CLI_UNSUPPORTED ? CLI_OK : code;
    }
    free(pick);
    if (!code && set->cases == before && !interrupt_code())
        code = cli_fail(CLI_UNSUPPORTED,
                        "bench kernel %s: no such kernel of device %s supports a step of %s; fovea "
                        "info --kernels lists kernels, and --model selects another model",
                        r->kernel ? r->kernel : r->op, s->device, r->name);
    return code;
}

/* Adds the cases for one value from each list. */
static int add_cases(bench_set *set, const bench_request *r, const bench_options *o)
{
    cli_settings s;
    bench_device *on = NULL;
    CLI_TRY(cli_settle(&s, &r->common));
    CLI_TRY(open_device(&on, set, &s));
    return r->what == BENCH_KERNEL ? add_kernels(set, r, o, &s, on) : add_case(set, r, o, &s, on);
}

/* Iterates over all combinations of the lists, like an odometer. With --device all, a device that
 * does not support a case is skipped with a message. */
static int add_combinations(bench_set *set, const bench_request *r, const bench_options *o,
                            char **const list[AXES], const size_t n[AXES], bool lenient)
{
    size_t total = 1;
    int code = CLI_OK;
    for (int i = 0; i < AXES; i++)
        total *= n[i];
    for (size_t k = 0; k < total && !code && !interrupt_code(); k++) {
        bench_request one = *r;
        struct axis_text axis[AXES];
        size_t rest = k;
        axes_of(axis, &one);
        for (int i = AXES - 1; i >= 0; i--) {
            *axis[i].text = list[i][rest % n[i]];
            rest /= n[i];
        }
        code = add_cases(set, &one, o);
        if (lenient && (code == CLI_UNSUPPORTED || code == CLI_DEVICE || code == CLI_INPUT) &&
            (set->cases > 0 || k + 1 < total))
            code = CLI_OK;
    }
    if (!code && set->cases == 0 && !interrupt_code())
        code = CLI_UNSUPPORTED; /* every device has reported why it does not support the case */
    return code;
}

int bench_cases_add(bench_set *set, const bench_request *r, const bench_options *o)
{
    bench_request all = *r;
    struct axis_text axis[AXES];
    char **list[AXES] = {NULL};
    size_t n[AXES] = {0};
    const bool lenient = r->common.device && strcmp(r->common.device, "all") == 0;
    int code = CLI_OK;
    if (r->what == BENCH_GEMM && !r->shapes)
        all.shapes = SHAPES;
    if (r->what == BENCH_ATTENTION && !r->common.attention)
        all.common.attention = "softmax,linear";
    if (r->what == BENCH_LM && !r->phase)
        all.phase = "prefill,decode";
    if (r->what == BENCH_LM && !r->tokens)
        all.tokens = "1024,8192,65536";
    axes_of(axis, &all);
    for (int i = 0; i < AXES && !code; i++)
        code = cli_list(&list[i], &n[i], axis[i].option, *axis[i].text);
    CLI_THEN(code, add_combinations(set, &all, o, list, n, lenient));
    for (int i = 0; i < AXES; i++)
        cli_list_free(list[i]);
    return code;
}

void bench_cases_free(bench_set *set)
{
    for (size_t i = 0; i < set->cases; i++)
        bench_case_free(&set->list[i]);
    for (size_t i = 0; i < set->devices; i++) {
        fovea_device_close(set->device[i].device);
        free(set->device[i].key);
    }
}
