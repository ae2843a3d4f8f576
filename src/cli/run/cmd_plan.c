/* cmd_plan.c: `fovea plan`: prints the estimated time, memory and steps of a plan without running
 * it. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/sequences.h>

#include "cli/common/cli.h"
#include "cli/run/plan_advise.h"

static const char *schedule_name(fovea_schedule s)
{
    return s == FOVEA_SCHEDULE_STREAMED ? "streamed" : "stepwise";
}

static uint64_t activations(const fovea_plan_info *p)
{
    return p->residual + p->states + p->chunks + p->scratch + p->staging;
}

/* ---- steps ---- */

/* A step's label in three parts, such as "stage 1 block ", "0", " fc1". */
struct label {
    const char *text, *rest;
    /* lengths of the first two parts; 0 if the step is not in a block, and `rest` is the whole
     * label */
    int block, number;
};

static struct label parts_of(const fovea_step_info *step)
{
    static const char word[] = "block ";
    struct label l = {.text = step->label, .rest = step->label};
    const char *at = strstr(l.text, word);
    const size_t digits = at ? strspn(at + sizeof word - 1, "0123456789") : 0;
    if (digits) {
        l.block = (int)(at - l.text) + (int)sizeof word - 1;
        l.number = (int)digits;
        l.rest = l.text + l.block + l.number;
    }
    return l;
}

/* Returns whether two steps are equal except for the number of their block. */
static bool alike(const fovea_step_info *a, const fovea_step_info *b)
{
    const struct label x = parts_of(a), y = parts_of(b);
    return x.block == y.block && strncmp(x.text, y.text, (size_t)x.block) == 0 &&
           strcmp(x.rest, y.rest) == 0 && strcmp(a->problem, b->problem) == 0 &&
           strcmp(a->kernel, b->kernel) == 0 && strcmp(a->source, b->source) == 0;
}

/* Returns the number of steps from `at` on that are in the same block, or 1 if step `at` is not in
 * a block. */
static size_t block_length(const fovea_step_info *step, size_t at, size_t n)
{
    const struct label first = parts_of(&step[at]);
    size_t end = at + 1;
    for (; first.block && end < n; end++) {
        const struct label l = parts_of(&step[end]);
        if (l.block != first.block || l.number != first.number ||
            strncmp(l.text, first.text, (size_t)(l.block + l.number)) != 0)
            break;
    }
    return end - at;
}

/* Returns how many consecutive blocks from step `at` on, of `length` steps each, have equal
 * steps. */
static size_t repeats(const fovea_step_info *step, size_t at, size_t n, size_t length)
{
    size_t end = at + length;
    while (parts_of(&step[at]).block && end < n && block_length(step, end, n) == length) {
        for (size_t i = 0; i < length; i++)
            if (!alike(&step[at + i], &step[end + i]))
                return (end - at) / length;
        end += length;
    }
    return (end - at) / length;
}

/* ---- products ---- */

static const char *const product_types[] = {"int8", "bf16", "f16", "f32"};
enum { PRODUCT_TYPES = sizeof product_types / sizeof *product_types };

static const char *products_of(const fovea_step_info *step)
{
    return step->products ? step->products : "";
}

/* Returns whether an earlier step has the same name, apart from its block, and the same type of
 * products. */
static bool named_before(const fovea_step_info *step, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(products_of(&step[i]), step[at].products) == 0 &&
            strcmp(parts_of(&step[i]).rest, parts_of(&step[at]).rest) == 0)
            return true;
    return false;
}

static uint32_t count_products(const fovea_step_info *step, size_t n, const char *type)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += strcmp(products_of(&step[i]), type) == 0;
    return count;
}

/* Prints the number of products of each type, one line per type. Prints nothing if all are
 * float32. */
static void show_products(const fovea_step_info *step, size_t n, fovea_compute compute)
{
    const char *begin = "products";
    for (size_t t = 0; t < PRODUCT_TYPES; t++) {
        const char *type = product_types[t], *between = ": ";
        const uint32_t count = count_products(step, n, type);
        if (!count)
            continue;
        printf("%-8s %u of %s", begin, count, type);
        for (size_t i = 0; i < n && compute != FOVEA_COMPUTE_F32; i++)
            if (strcmp(products_of(&step[i]), type) == 0 && !named_before(step, i)) {
                const char *name = parts_of(&step[i]).rest;
                printf("%s%s", between, name + strspn(name, " "));
                between = "; ";
            }
        putchar('\n');
        begin = "";
    }
}

static json_t *describe_products(const fovea_step_info *step, size_t n)
{
    json_t *out = json_object();
    for (size_t t = 0; t < PRODUCT_TYPES; t++)
        json_object_set_new(out, product_types[t],
                            json_integer(count_products(step, n, product_types[t])));
    return out;
}

/* Returns why the planner chose the step's kernel; "none" if only the reference was available. */
static const char *source_of(const fovea_step_info *step)
{
    return step->reference ? "none" : step->source;
}

/* Prints the steps, and each group of equal blocks once. */
static void show_blocks(const fovea_step_info *step, size_t n)
{
    printf("\n%-36s %5s  %-8s %-32s %-7s %8s %9s\n", "step", "times", "products", "kernel", "by",
           "GFLOP", "ms");
    for (size_t at = 0; at < n;) {
        const size_t length = block_length(step, at, n), times = repeats(step, at, n, length);
        for (size_t i = at; i < at + length; i++) {
            const struct label first = parts_of(&step[i]);
            const struct label last = parts_of(&step[i + (times - 1) * length]);
            char label[128], count[24] = "";
            snprintf(label, sizeof label, "%s", step[i].label);
            if (times > 1) {
                snprintf(label, sizeof label, "%.*s-%.*s%s", first.block + first.number, first.text,
                         last.number, last.text + last.block, first.rest);
                snprintf(count, sizeof count, "x %zu", times);
            }
            printf("%-36s %5s  %-8s %-32s %-7s %8.3f %9.3f\n", label, count, products_of(&step[i]),
                   step[i].kernel, source_of(&step[i]), step[i].flops * 1e-9,
                   step[i].seconds * 1e3);
        }
        at += times * length;
    }
}

static void show_steps(const fovea_step_info *step, size_t n)
{
    printf("\n%5s %-8s %6s %-7s  %-36s %-44s %-8s %-32s %-7s %8s %9s\n", "sweep", "schedule",
           "chunk", "by", "step", "problem", "products", "kernel", "by", "GFLOP", "ms");
    for (size_t i = 0; i < n; i++)
        printf("%5u %-8s %6u %-7s  %-36s %-44s %-8s %-32s %-7s %8.3f %9.3f\n", step[i].sweep,
               schedule_name(step[i].schedule), step[i].chunk, step[i].sweep_source, step[i].label,
               step[i].problem, products_of(&step[i]), step[i].kernel, source_of(&step[i]),
               step[i].flops * 1e-9, step[i].seconds * 1e3);
}

/* ---- all of it ---- */

static void show_memory(const fovea_plan_info *p, const fovea_device_info *device)
{
    char limit[96] = "";
    const struct {
        const char *name;
        uint64_t bytes;
        const char *what;
    } kind[] = {
        {"weights", p->weights, "one copy for all plans of a model"},
        {"token features", p->residual, "features of all tokens, kept from one sweep to the next"},
        {"attention states", p->states,
         "sums over all keys and values that linear attention keeps"},
        {"rows in between", p->chunks, "intermediate rows of the tokens being processed"},
        {"kernels' own", p->scratch, "working memory of kernels"},
        {"picture, tables", p->staging, "resized picture, positions, and the plan itself"},
        {"all but weights", activations(p), ""},
        {"largest buffer", p->largest, limit},
    };
    if (device->max_buffer)
        snprintf(limit, sizeof limit, "the device's limit is %s",
                 cli_bytes(device->max_buffer).text);
    putchar('\n');
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        printf("%-16s %10s  %s\n", kind[i].name, cli_bytes(kind[i].bytes).text, kind[i].what);
}

/* Returns all steps of a plan, which the caller frees, and sets *n to their number. */
static fovea_step_info *steps_of(const fovea_plan *plan, const fovea_plan_info *p, size_t *n)
{
    fovea_step_info *step = cli_alloc(p->steps, sizeof *step);
    for (*n = 0; *n < p->steps; ++*n) {
        step[*n].struct_size = sizeof *step;
        if (!fovea_plan_step(plan, *n, &step[*n]))
            break;
    }
    return step;
}

static void show_device(const fovea_device_info *device, uint32_t threads)
{
    printf("device   %s, %s, %s, %u threads\n", device->id, device->name, device->features,
           threads);
}

/* Prints types of products, work and time. `advice` follows an estimated time; it says how to get a
 * better estimate. */
static void show_work(const fovea_plan *plan, const fovea_plan_info *p, const fovea_step_info *step,
                      size_t n, const char *advice)
{
    const double measured = fovea_plan_measured_seconds(plan);
    show_products(step, n, p->compute);
    printf("work     %.2f GFLOP, %u steps in %u sweeps over the tokens, %u dispatches\n",
           p->flops * 1e-9, p->steps, p->sweeps, p->dispatches);
    if (measured > 0)
        printf("time     %s, measured by tuning; %s by the cost model\n",
               cli_duration(measured).text, cli_duration(p->seconds).text);
    else
        printf("time     about %s by the cost model%s\n", cli_duration(p->seconds).text, advice);
}

static void show_preprocess(const cli_session *s)
{
    const fovea_preprocess rule = cli_preprocess(&s->settings, s->model);
    char *text = cli_preprocess_text(&rule, &s->info);
    printf("pixels   %s\n", text);
    if (s->info.preprocess_assumed)
        puts("warning  no file describes the preprocessing of pictures; the above is assumed");
    free(text);
}

static void show(const fovea_plan *plan, const fovea_plan_info *p, const cli_session *s,
                 const fovea_plan_options *options, const char *model, bool steps)
{
    size_t n;
    char *choice = cli_products_text(p), *slow = cli_reference_text(p);
    fovea_step_info *step = steps_of(plan, p, &n);
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(s->device, &device);
    printf("model    %s, attention %s, weights%s %s%s\n", model,
           cli_attention(&s->settings, &s->info),
           options->activations == FOVEA_DTYPE_F32 ? "" : " and activations",
           cli_dtype_name(s->settings.dtype), cli_products(p).text);
    printf("picture  %ux%u, grid %ux%u, %u tokens", p->width, p->height, p->grid_width,
           p->grid_height, p->tokens);
    if (p->ignored_right || p->ignored_bottom)
        printf("; %u pixels at the right and %u at the bottom are ignored", p->ignored_right,
               p->ignored_bottom);
    putchar('\n');
    show_preprocess(s);
    if (p->untrained)
        printf("warning  %s\n", p->untrained);
    show_device(&device, p->threads);
    show_work(plan, p, step, n, "; fovea tune measures it");
    if (choice)
        printf("compute  %s\n", choice);
    free(choice);
    if (slow)
        printf("warning  %s\n", slow);
    free(slow);
    show_memory(p, &device);
    (steps ? show_steps : show_blocks)(step, n);
    free(step);
}

static json_t *describe_steps(const fovea_step_info *all, size_t n)
{
    json_t *steps = json_array();
    for (const fovea_step_info *step = all; step < all + n; step++)
        json_array_append_new(
            steps,
            json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:i, s:f, s:f, s:f, s:s?, s:b}", "label",
                      step->label, "problem", step->problem, "kernel", step->kernel, "source",
                      step->source, "sweep", (int)step->sweep, "schedule",
                      schedule_name(step->schedule), "sweep_source", step->sweep_source, "chunk",
                      (int)step->chunk, "flops", step->flops, "seconds", step->seconds, "bytes",
                      step->bytes, "products", step->products, "reference", step->reference));
    return steps;
}

static json_t *describe(const fovea_plan *plan, const fovea_plan_info *p, const cli_session *s,
                        const char *model)
{
    size_t n;
    fovea_step_info *all = steps_of(plan, p, &n);
    json_t *steps = describe_steps(all, n);
    json_t *products = describe_products(all, n);
    free(all);
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(s->device, &device);
    const fovea_preprocess rule = cli_preprocess(&s->settings, s->model);
    char *pixels = cli_preprocess_text(&rule, &s->info);
    json_t *params =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:b}", "model",
                  cli_json_text(model), "attention", cli_attention(&s->settings, &s->info), "dtype",
                  cli_dtype_name(s->settings.dtype), "compute", cli_compute_name(p->compute),
                  "compute_source", p->compute_source, "width", (int)p->width, "height",
                  (int)p->height, "grid_width", (int)p->grid_width, "grid_height",
                  (int)p->grid_height, "tokens", (int)p->tokens, "preprocess",
                  cli_json_text(pixels), "preprocess_assumed", (int)s->info.preprocess_assumed);
    free(pixels);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:i, s:i, s:i, s:f, s:f, s:f, s:s*, s:o, s:o}",
                     "schema", "fovea.plan/1", "build", cli_build(), "env",
                     cli_environment(s->device), "params",
                     cli_add_linear_form(params, &s->settings), "bytes", cli_plan_bytes(p),
                     "max_buffer", (json_int_t)device.max_buffer, "sweeps", (int)p->sweeps,
                     "steps_count", (int)p->steps, "dispatches", (int)p->dispatches, "flops",
                     p->flops, "seconds", p->seconds, "reference_seconds", p->reference_seconds,
                     "untrained", p->untrained, "products", products, "steps", steps);
}

/* ---- of a sequence ---- */

static void show_sequence_memory(const fovea_sequence_info *q)
{
    const struct {
        const char *name;
        uint64_t bytes;
        const char *what;
    } kind[] = {
        {"weights", q->weights, "one copy for all sequences of a model"},
        {"states", q->states,
         q->context ? "keys and values of the context" : "independent of the context"},
        {"all else", q->activations, "intermediate rows, and the plans"},
    };
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        printf("%-16s %10s  %s\n", kind[i].name, cli_bytes(kind[i].bytes).text, kind[i].what);
}

/* Prints the plan that processes `rows` tokens at a time: the prefill plan, or the decode plan if
 * `rows` is 1. */
static void show_phase(const fovea_sequence *sequence, uint32_t rows, bool steps)
{
    const fovea_plan *plan =
        rows > 1 ? fovea_sequence_prefill_plan(sequence) : fovea_sequence_decode_plan(sequence);
    fovea_plan_info p = FOVEA_PLAN_INFO_INIT;
    size_t n;
    fovea_plan_query(plan, &p);
    fovea_step_info *step = steps_of(plan, &p, &n);
    printf(rows > 1 ? "\nprefill  %u tokens at a time\n" : "\nstep     %u token\n", rows);
    show_work(plan, &p, step, n, "");
    (steps ? show_steps : show_blocks)(step, n);
    free(step);
}

static void show_sequence(const fovea_sequence *sequence, const cli_session *s, const char *model,
                          bool steps)
{
    fovea_sequence_info q = FOVEA_SEQUENCE_INFO_INIT;
    fovea_plan_info p = FOVEA_PLAN_INFO_INIT;
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_sequence_query(sequence, &q);
    fovea_plan_query(fovea_sequence_decode_plan(sequence), &p);
    fovea_device_describe(s->device, &device);
    printf("model    %s, %s, weights %s %s\n", model, s->info.type,
           cli_dtype_name(s->settings.dtype), cli_products(&p).text);
    if (q.context)
        printf("context  %u tokens\n", q.context);
    show_device(&device, p.threads);
    putchar('\n');
    show_sequence_memory(&q);
    if (q.rows > 1)
        show_phase(sequence, q.rows, steps);
    show_phase(sequence, 1, steps);
}

static json_t *describe_phase(const fovea_sequence *sequence, bool many)
{
    const fovea_plan *plan =
        many ? fovea_sequence_prefill_plan(sequence) : fovea_sequence_decode_plan(sequence);
    fovea_plan_info p = FOVEA_PLAN_INFO_INIT;
    size_t n;
    fovea_plan_query(plan, &p);
    fovea_step_info *all = steps_of(plan, &p, &n);
    json_t *out = json_pack("{s:i, s:f, s:f, s:o, s:o, s:o}", "tokens", (int)p.tokens, "flops",
                            p.flops, "seconds", p.seconds, "bytes", cli_plan_bytes(&p), "products",
                            describe_products(all, n), "steps", describe_steps(all, n));
    free(all);
    return out;
}

static json_t *describe_sequence(const fovea_sequence *sequence, const cli_session *s,
                                 const char *model)
{
    fovea_sequence_info q = FOVEA_SEQUENCE_INFO_INIT;
    fovea_plan_info p = FOVEA_PLAN_INFO_INIT;
    fovea_sequence_query(sequence, &q);
    fovea_plan_query(fovea_sequence_decode_plan(sequence), &p);
    json_t *params =
        json_pack("{s:o, s:s, s:s, s:s, s:i, s:i}", "model", cli_json_text(model), "type",
                  s->info.type, "dtype", cli_dtype_name(s->settings.dtype), "compute",
                  cli_compute_name(p.compute), "rows", (int)q.rows, "context", (int)q.context);
    json_t *bytes = json_pack("{s:I, s:I, s:I}", "weights", (json_int_t)q.weights, "states",
                              (json_int_t)q.states, "activations", (json_int_t)q.activations);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "fovea.plan-sequence/1",
                     "build", cli_build(), "env", cli_environment(s->device), "params", params,
                     "bytes", bytes, "prefill", describe_phase(sequence, true), "step",
                     describe_phase(sequence, false));
}

static int plan_sequence(cli_session *s, const fovea_sequence_options *given, const char *model,
                         bool json, bool steps)
{
    fovea_sequence_options o = *given;
    fovea_sequence *sequence;
    o.schedule = s->settings.schedule;
    o.weights = s->settings.dtype;
    o.compute = s->settings.compute;
    o.memory_limit = s->settings.memory_limit;
    o.dry = 1;
    CLI_TRY(cli_check(fovea_sequence_create(&sequence, s->model, s->device, &o)));
    if (json)
        cli_print_json(describe_sequence(sequence, s, model));
    else
        show_sequence(sequence, s, model, steps);
    fovea_sequence_free(sequence);
    return CLI_OK;
}

/* Opens the model without the options that may be lists, and prints what fits. */
static int advise_model(const cli_common *common, const advise_budget *budget, const char *model)
{
    cli_common single = *common;
    cli_session s;
    single.size = single.attention = single.compute = NULL;
    CLI_TRY(cli_open(&s, &single, model));
    const int code = s.info.sequence
                         ? cli_fail(CLI_UNSUPPORTED,
                                    "%s reads sequences; --advise is for models of pictures", model)
                         : advise(&s, common, budget, model);
    cli_close(&s);
    return code;
}

int cli_plan(const cli_command *self, int argc, char **argv)
{
    cli_common common = {CLI_STORES};
    cli_session s;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *plan;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_sequence_options sequence = FOVEA_SEQUENCE_OPTIONS_INIT;
    const char *rows = NULL, *context = NULL;
    bool steps = false, advised = false;
    const char *budget_text = NULL;
    advise_budget budget;
    const cli_option own[] = {
        {"advise", 0, NULL,
         "list sizes, attentions and precisions with their time and memory; --size, --attention "
         "and --compute take lists",
         &advised},
        {"budget", 0, "LIMIT",
         "with --advise: only what fits a time, a size of memory or both: "
         "30ms,200MiB",
         &budget_text},
        {"steps", 0, NULL, "list every step of every block, with its sweep and problem", &steps},
        {"rows", 0, "N", "language models: tokens of a prompt per call (default 256)", &rows},
        {"context", 0, "N",
         "language models: capacity of the softmax blocks' cache, in tokens (default 2048)",
         &context},
        {NULL},
    };
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 != argc)
        return cli_fail(CLI_USAGE, "plan needs one MODEL; see fovea plan --help");
    CLI_TRY(cli_number(&sequence.rows, "rows", rows, 1, 1 << 20));
    CLI_TRY(cli_number(&sequence.context, "context", context, 1, 1 << 24));
    CLI_TRY(advise_budget_read(&budget, budget_text));
    if (budget_text && !advised)
        return cli_fail(CLI_USAGE, "--budget is only for --advise");
    if (advised)
        return advise_model(&common, &budget, argv[first]);
    CLI_TRY(cli_open(&s, &common, argv[first]));
    if (s.info.sequence) {
        code = plan_sequence(&s, &sequence, argv[first], common.json, steps);
        cli_close(&s);
        return code;
    }
    cli_plan_options(&options, &s.settings, s.device, s.model);
    options.dry = 1;
    cli_progress bar;
    cli_progress_begin(&bar, "plan");
    code = cli_check(fovea_plan_create(&plan, s.model, s.device, &options));
    cli_progress_end(&bar);
    if (!code) {
        fovea_plan_query(plan, &info);
        if (common.json)
            cli_print_json(describe(plan, &info, &s, argv[first]));
        else
            show(plan, &info, &s, &options, argv[first], steps);
        fovea_plan_free(plan);
    }
    cli_close(&s);
    return code;
}
