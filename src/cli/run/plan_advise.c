/* plan_advise.c: see plan_advise.h. Every combination is planned without memory (dry), so that the
 * figures are those of `fovea plan`. */
#include "cli/run/plan_advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/text_table.h"

/* A combination and its plan. */
typedef struct choice {
    const char *attention, *compute;
    fovea_plan_info info;
    double seconds, bytes;
    bool measured;  /* `seconds` was measured by tuning */
    bool untrained; /* the attention needs training first */
    bool fits;
} choice;

typedef struct advice {
    const cli_session *s;
    const cli_common *common;
    advise_budget budget;
    char **size, **attention, **compute; /* each ends with NULL */
    choice *list;
    size_t n;
    char refusal[256]; /* why a combination cannot be planned: the first one; or empty */
    size_t refused;
} advice;

/* ---- the budget ---- */

static bool read_limit(advise_budget *out, const char *text)
{
    static const struct {
        const char *unit;
        double factor;
        bool time;
    } units[] = {{"us", 1e-6, true},    {"ms", 1e-3, true},       {"s", 1, true},
                 {"KiB", 1024., false}, {"MiB", 1048576., false}, {"GiB", 1073741824., false},
                 {"MB", 1e6, false},    {"GB", 1e9, false}};
    char *end;
    const double x = strtod(text, &end);
    for (size_t i = 0; end != text && x > 0 && isfinite(x) && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *(units[i].time ? &out->seconds : &out->bytes) = x * units[i].factor;
            return true;
        }
    return false;
}

int advise_budget_read(advise_budget *out, const char *text)
{
    char **part;
    size_t n;
    *out = (advise_budget){0};
    if (!text)
        return CLI_OK;
    CLI_TRY(cli_list(&part, &n, "budget", text));
    int code = CLI_OK;
    for (size_t i = 0; i < n && !code; i++)
        if (!read_limit(out, part[i]))
            code = cli_fail(CLI_USAGE,
                            "--budget %s: it must be a time or a size of memory with its unit, or "
                            "both, such as 30ms,200MiB",
                            part[i]);
    cli_list_free(part);
    return code;
}

/* ---- what is tried ---- */

static char **list_of(const char *const *words)
{
    char **out = NULL;
    size_t n = 0;
    for (; words[n]; n++) {
        out = cli_grow(out, n, sizeof *out);
        out[n] = cli_text("%s", words[n]);
    }
    out = cli_grow(out, n, sizeof *out);
    out[n] = NULL;
    return out;
}

/* Returns multiples of the size that the model sees by default, rounded to whole patches. */
static char **usual_sizes(const cli_session *s)
{
    static const double scales[] = {0.5, 0.75, 1, 1.5, 2, 3, 4};
    enum { SIZES = sizeof scales / sizeof *scales };
    char text[SIZES][32];
    const char *words[SIZES + 1] = {NULL};
    uint32_t width, height, patch = s->info.patch ? s->info.patch : 1;
    const fovea_preprocess p = cli_preprocess(&s->settings, s->model);
    cli_picture_size(&width, &height, &p, &s->info);
    for (int i = 0; i < SIZES; i++) {
        const uint32_t w = (uint32_t)(width * scales[i] / patch + 0.5) * patch;
        const uint32_t h = (uint32_t)(height * scales[i] / patch + 0.5) * patch;
        snprintf(text[i], sizeof text[i], "%ux%u", w ? w : patch, h ? h : patch);
        words[i] = text[i];
    }
    return list_of(words);
}

static int given_or(char ***out, const char *option, const char *text, const char *const *usual)
{
    size_t n;
    if (text)
        return cli_list(out, &n, option, text);
    *out = list_of(usual);
    return CLI_OK;
}

static int find_values(advice *a)
{
    const bool softmax = strcmp(a->s->info.attention, "softmax") == 0;
    const char *const own[] = {a->s->info.attention, softmax ? "foveated" : NULL, "linear:elu1",
                               NULL};
    static const char *const computes[] = {"f32", "bf16", "int8", NULL};
    size_t n;
    if (a->common->size)
        CLI_TRY(cli_list(&a->size, &n, "size", a->common->size));
    else
        a->size = usual_sizes(a->s);
    CLI_TRY(given_or(&a->attention, "attention", a->common->attention, own));
    return given_or(&a->compute, "compute", a->common->compute, computes);
}

/* ---- plans ---- */

static void add_choice(advice *a, const fovea_plan *plan, const char *attention,
                       const char *compute)
{
    choice c = {.attention = attention, .compute = compute, .info = FOVEA_PLAN_INFO_INIT};
    fovea_plan_query(plan, &c.info);
    const double measured = fovea_plan_measured_seconds(plan);
    const fovea_plan_info *p = &c.info;
    c.measured = measured > 0;
    c.seconds = c.measured ? measured : p->seconds;
    c.bytes = (double)(p->weights + p->residual + p->states + p->chunks + p->scratch + p->staging);
    c.untrained = p->untrained != NULL;
    c.fits = (a->budget.seconds <= 0 || c.seconds <= a->budget.seconds) &&
             (a->budget.bytes <= 0 || c.bytes <= a->budget.bytes);
    a->list = cli_grow(a->list, a->n, sizeof *a->list);
    a->list[a->n++] = c;
}

/* Plans one combination. One that cannot be planned, because the model takes no such size or
 * attention, is left out. */
static int try_one(advice *a, const char *size, const char *attention, const char *compute)
{
    cli_common common = *a->common;
    cli_settings settings;
    fovea_plan_options options;
    fovea_plan *plan;
    common.size = size;
    common.attention = attention;
    common.compute = compute;
    CLI_TRY(cli_settle(&settings, &common));
    cli_plan_options(&options, &settings, a->s->device, a->s->model);
    options.dry = 1;
    if (fovea_plan_create(&plan, a->s->model, a->s->device, &options) != FOVEA_OK) {
        if (a->refused++ == 0)
            snprintf(a->refusal, sizeof a->refusal, "%s", fovea_error());
        return CLI_OK;
    }
    add_choice(a, plan, attention, compute);
    fovea_plan_free(plan);
    return CLI_OK;
}

static int try_all(advice *a)
{
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "plan");
    for (char **size = a->size; *size && !code; size++)
        for (char **attention = a->attention; *attention && !code; attention++)
            for (char **compute = a->compute; *compute && !code; compute++)
                code = try_one(a, *size, *attention, *compute);
    cli_progress_end(&bar);
    return code;
}

/* ---- results ---- */

static bool is_limited(const advice *a)
{
    return a->budget.seconds > 0 || a->budget.bytes > 0;
}

/* Returns the choice with the most tokens that fits, and of these the fastest; attentions that need
 * training come last. NULL: none fits. */
static const choice *best_of(const advice *a)
{
    const choice *best = NULL;
    for (const choice *c = a->list; c < a->list + a->n; c++) {
        if (!c->fits)
            continue;
        const bool better = !best || c->untrained < best->untrained ||
                            (c->untrained == best->untrained &&
                             (c->info.tokens > best->info.tokens ||
                              (c->info.tokens == best->info.tokens && c->seconds < best->seconds)));
        best = better ? c : best;
    }
    return best;
}

static void show(const advice *a)
{
    const char *const heads[] = {"size", "tokens", "<attention", "<compute", "time",
                                 "<",    "memory", "<",          NULL};
    text_table t;
    table_begin(&t, heads);
    for (const choice *c = a->list; c < a->list + a->n; c++) {
        if (is_limited(a) && !c->fits)
            continue;
        table_put(&t, "%ux%u", c->info.width, c->info.height);
        table_put(&t, "%u", c->info.tokens);
        table_put(&t, "%s", c->attention);
        table_put(&t, "%s", c->compute);
        table_put(&t, "%s", cli_duration(c->seconds).text);
        table_put(&t, "%s", c->measured ? "measured" : "estimated");
        table_put(&t, "%s", cli_bytes((uint64_t)c->bytes).text);
        table_put(&t, "%s", c->untrained ? "needs training" : "");
    }
    table_end(&t, stdout, false);
    const choice *best = best_of(a);
    if (is_limited(a) && best)
        printf("largest that fits: --size %ux%u --attention %s --compute %s\n", best->info.width,
               best->info.height, best->attention, best->compute);
    else if (is_limited(a))
        puts("nothing fits; use a smaller --size, or a smaller model");
}

static json_t *describe(const advice *a, const char *model)
{
    json_t *list = json_array();
    for (const choice *c = a->list; c < a->list + a->n; c++)
        json_array_append_new(
            list,
            json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:b, s:f, s:o, s:b, s:b}", "width",
                      (int)c->info.width, "height", (int)c->info.height, "tokens",
                      (int)c->info.tokens, "attention", c->attention, "compute", c->compute,
                      "seconds", c->seconds, "measured", c->measured, "memory", c->bytes, "bytes",
                      cli_plan_bytes(&c->info), "untrained", c->untrained, "fits", c->fits));
    return json_pack("{s:s, s:o, s:o, s:o, s:f, s:f, s:o}", "schema", "fovea.plan-advice/1",
                     "build", cli_build(), "env", cli_environment(a->s->device), "model",
                     cli_json_text(model), "budget_seconds", a->budget.seconds, "budget_bytes",
                     a->budget.bytes, "choices", list);
}

static int report(const advice *a, const char *model)
{
    if (a->n == 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: none of these can be planned: %s", model, a->refusal);
    if (a->common->json)
        cli_print_json(describe(a, model));
    else
        show(a);
    if (a->refused > 0)
        cli_tell("%zu of %zu combinations cannot be planned and are left out; the first: %s",
                 a->refused, a->refused + a->n, a->refusal);
    return CLI_OK;
}

int advise(const cli_session *s, const cli_common *common, const advise_budget *budget,
           const char *model)
{
    advice a = {.s = s, .common = common, .budget = *budget};
    int code = find_values(&a);
    CLI_THEN(code, try_all(&a));
    CLI_THEN(code, report(&a, model));
    cli_list_free(a.size);
    cli_list_free(a.attention);
    cli_list_free(a.compute);
    free(a.list);
    return code;
}
