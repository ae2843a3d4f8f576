/* options.c: parses the options that commands share. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/cli.h"

#define OPTIONS_MAX 96
#define SIDE_MAX 65535 /* largest width and height of --size, in pixels */

/* ---- parsing ---- */

static const char *const dtypes[] = {"f32", "f16", "bf16", "int8", NULL};    /* by fovea_dtype */
static const char *const floats[] = {"f32", "f16", "bf16", NULL};            /* by fovea_dtype */
static const char *const computes[] = {"f32", "bf16", "int8", "auto", NULL}; /* by fovea_compute */
static const char *const schedules[] = {"auto", "streamed", "stepwise", NULL};
static const char *const backends[] = {"torchvision", "pillow", NULL}; /* by fovea_resample */
static const char *const rigors[] = {"estimate", "measure", "exhaustive", NULL};
/* completion suggests these; most machines have them */
static const char *const devices[] = {"auto", "cpu", "cl:0", "cuda:0", NULL};
static const char *const cores[] = {"big", "little", "all", NULL};

/* Lists the shared options of all commands in `all`, and returns their number. */
static size_t shared(cli_option *all, cli_common *c)
{
    const cli_option common[] = {
        {"device", 0, "ID", "device: auto, cpu, cl:N, cl:NAME or cuda:N", &c->device,
         CLI_TAKES_DEVICE, devices},
        {"isa", 0, "LEVEL",
         "highest instruction set to use: scalar, avx2, avx-vnni, avx512, avx512-vnni, "
         "avx512-bf16, neon, neon-fp16, neon-sdot, neon-dot, neon-i8mm, rvv",
         &c->isa, CLI_TAKES_ISA},
        {"threads", 0, "N", "number of worker threads", &c->threads, CLI_TAKES_DEVICE},
        {"cores", 0, "WHICH", "cores to use: big, little, all, or a list such as 0,2 or 4-7",
         &c->cores, CLI_TAKES_DEVICE, cores},
        {"attention", 0, "NAME[:MAP]",
         "attention in place of the model's own (fovea info --attentions lists them); A+B@0-3+C@8- "
         "means A, but B in blocks 0 to 3 and C from block 8 on",
         &c->attention, CLI_TAKES_PLAN},
        {"dtype", 0, "TYPE", c->half ? c->half : "type of the weights: f32", &c->dtype,
         CLI_TAKES_PLAN, c->stores_int8 ? dtypes : floats},
        {"compute", 0, "TYPE",
         c->products ? c->products : "operand type of matrix products: f32, bf16 or int8",
         &c->compute, CLI_TAKES_PLAN, computes},
        {"memory-limit", 0, "MIB", "limit of a plan's memory in MiB, without weights",
         &c->memory_limit, CLI_TAKES_PLAN},
        {"max-dispatch-ms", 0, "MS",
         "longest time of one piece of work on a GPU, in milliseconds (default 20)",
         &c->max_dispatch, CLI_TAKES_DEVICE},
        {"wisdom", 0, "FILE",
         "file with results of fovea tune, instead of FOVEA_WISDOM; none: use no results",
         &c->wisdom, CLI_TAKES_WISDOM},
        {"rigor", 0, "LEVEL",
         "estimate: never measure; measure, exhaustive: first measure the kernels of which wisdom "
         "has no result",
         &c->rigor, CLI_TAKES_PLAN, rigors},
        {"schedule", 0, "NAME",
         "auto; streamed: a chunk of tokens at a time passes through many steps, which saves "
         "memory; stepwise: all tokens pass through one step after the other",
         &c->schedule, CLI_TAKES_PLAN, schedules},
        {"chunk", 0, "N", "tokens per chunk in the streamed schedule", &c->chunk, CLI_TAKES_PLAN},
        {"size", 0, "WxH",
         "input size of the model in pixels; N means NxN. Pictures are scaled to it, also up, by "
         "the rule of the model's preprocessing",
         &c->size, CLI_TAKES_SIZE},
        {"backend", 0, "NAME",
         "library whose resizing is reproduced: torchvision or pillow (default: that of the "
         "model's files, else torchvision; for timm's models pillow)",
         &c->backend, CLI_TAKES_SIZE, backends},
        {"prefix", 0, "TEXT",
         "prefix of the model's tensor names in MODEL's files, such as model.vision_tower.; "
         "tensors without it are not read",
         &c->prefix, CLI_TAKES_MODEL},
        {"weights-cache", 0, "FOLDER",
         "folder in which packed weights are stored for later processes, instead of "
         "FOVEA_WEIGHTS_CACHE; none: store none",
         &c->weights_cache, CLI_TAKES_WEIGHTS_CACHE},
        {"nala-lambda", 0, "X",
         "lambda of nala attention in a ViT, from 2 to 8 (default: the model's, else 3)",
         &c->nala_lambda, CLI_TAKES_MODEL},
        {"pola-alpha", 0, "X",
         "alpha of pola attention in a ViT, at most 16 (default: the model's, else 4)",
         &c->pola_alpha, CLI_TAKES_MODEL},
        {"q-scale", 0, "X",
         "scale of the queries of linear attention in a ViT (default: the model's)", &c->q_scale,
         CLI_TAKES_MODEL},
        {"linear-heads", 0, "N",
         "number of heads of linear attention in a ViT (default: the model's)", &c->linear_heads,
         CLI_TAKES_MODEL},
        {"no-exif", 0, NULL, "do not rotate pictures by their EXIF orientation", &c->no_exif,
         CLI_TAKES_PICTURES},
        {"strict", 0, NULL,
         "fail if a measurement is unstable; end the command at the first broken picture",
         &c->strict, CLI_TAKES_STRICT},
        {"json", 0, NULL, "print results as JSON, one object per line", &c->json, CLI_TAKES_JSON},
    };
    memcpy(all, common, sizeof common);
    return sizeof common / sizeof *common;
}

/* Adds an option. A command with more than OPTIONS_MAX options fails at every call. */
static void add(cli_option *all, size_t *n, const cli_option *one)
{
    if (*n == OPTIONS_MAX)
        exit(cli_fail(CLI_UNSUPPORTED, "--%s: a command has at most %d options", one->name,
                      OPTIONS_MAX));
    all[(*n)++] = *one;
}

static size_t gather(cli_option *all, const cli_command *self, cli_common *c, const cli_option *own)
{
    cli_option common[OPTIONS_MAX];
    const size_t most = shared(common, c);
    size_t n = 0;
    for (; own && own->name; own++)
        add(all, &n, own);
    for (size_t i = 0; i < most; i++)
        if (self->takes & common[i].takes)
            add(all, &n, &common[i]);
    return n;
}

enum { HELP_COLUMN = 33, HELP_WIDTH = 100 };

/* Prints the words of `text`, wrapped to start at column HELP_COLUMN. */
static void help_words(const char *text)
{
    size_t at = HELP_COLUMN;
    for (const char *word = text; *word;) {
        const size_t n = strcspn(word, " ");
        if (at + n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        printf("%s%.*s", at > HELP_COLUMN ? " " : "", (int)n, word);
        at += n + (at > HELP_COLUMN);
        word += n + strspn(word + n, " ");
    }
    putchar('\n');
}

static void help(const cli_description *d, void *unused)
{
    const cli_command *self = d->command;
    const cli_option *all = d->option;
    (void)unused;
    printf("usage: fovea %s %s [options]\n%s\n\n", self->name, self->usage, self->summary);
    for (size_t i = 0; i < d->options; i++) {
        char name[64], letter[8] = "";
        snprintf(name, sizeof name, "--%s%s%s", all[i].name, all[i].argument ? " " : "",
                 all[i].argument ? all[i].argument : "");
        if (all[i].letter)
            snprintf(letter, sizeof letter, "-%c,", all[i].letter);
        printf("  %-3s %-26s ", letter, name);
        help_words(all[i].help);
    }
    printf("  -h, %-26s print this text\n", "--help");
    if (d->more)
        fputs(d->more, stdout);
    puts("\nexamples:");
    for (const char *line = self->examples; *line; line += strcspn(line, "\n") + 1)
        printf("  %.*s\n", (int)strcspn(line, "\n"), line);
}

/* The function that --help calls. */
static cli_describer *describer = help;
static void *described; /* payload of `describer` */

int cli_describe(const cli_command *command, cli_describer *to, void *payload)
{
    char name[] = "fovea", ask[] = "--help", *argv[] = {name, ask, NULL};
    describer = to;
    described = payload;
    const int code = command->run(command, 2, argv);
    describer = help;
    return code;
}

/* Reports an option that the command does not support. */
static int unknown(const cli_command *self, const cli_option *all, size_t n, const char *given)
{
    cli_option common[OPTIONS_MAX];
    cli_common none = {0};
    const size_t most = shared(common, &none);
    const char *names[OPTIONS_MAX + 1] = {NULL};
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given + strspn(given, "-"), "="),
             given + strspn(given, "-"));
    for (size_t i = 0; i < n; i++)
        names[i] = all[i].name;
    for (size_t i = 0; i < most; i++)
        if (strcmp(common[i].name, name) == 0)
            return cli_fail(CLI_USAGE,
                            "fovea %s has no option --%s; fovea %s --help lists its options",
                            self->name, name, self->name);
    const char *likely = cli_likely(name, names);
    return cli_fail(CLI_USAGE, "unknown option %s; %s%s%sfovea %s --help lists them", given,
                    likely ? "did you mean --" : "", likely ? likely : "", likely ? "? " : "",
                    self->name);
}

static void add_text(cli_texts *to, const char *text)
{
    to->text = cli_grow(to->text, to->n, sizeof *to->text);
    to->text[to->n++] = text;
}

int cli_parse(int *first, const cli_command *self, cli_common *common, const cli_option *own,
              int argc, char **argv)
{
    cli_option all[OPTIONS_MAX];
    struct option table[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 8] = ":h";
    size_t n = gather(all, self, common, own), end = 2;
    for (size_t i = 0; i < n; i++) {
        table[i] = (struct option){all[i].name, all[i].argument != NULL, NULL, 256 + (int)i};
        if (all[i].letter) {
            letters[end++] = all[i].letter;
            if (all[i].argument)
                letters[end++] = ':';
        }
    }
    letters[end] = 0;
    table[n] = (struct option){"help", 0, NULL, 'h'};
    table[n + 1] = (struct option){NULL, 0, NULL, 0};
    opterr = 0;
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        const cli_option *o = NULL;
        for (size_t i = 0; i < n; i++)
            /* c is not 0, so an option without a letter does not match */
            if (c == 256 + (int)i || c == all[i].letter)
                o = &all[i];
        if (c == 'h' && !o) {
            describer(&(cli_description){self, all, n, common->more}, described);
            *first = 0;
            return CLI_OK;
        }
        if (c == ':')
            return cli_fail(CLI_USAGE, "%s needs a value", argv[optind - 1]);
        if (!o)
            return unknown(self, all, n, argv[optind - 1]);
        if (o->again)
            add_text(o->target, optarg);
        else if (o->argument)
            *(const char **)o->target = optarg;
        else
            *(bool *)o->target = true;
    }
    /* in the environment, so that every model the command loads uses it */
    if (common->weights_cache)
        setenv("FOVEA_WEIGHTS_CACHE",
               strcmp(common->weights_cache, "none") == 0 ? "" : common->weights_cache, 1);
    *first = optind;
    return CLI_OK;
}

/* Returns the edit distance: the number of letters to insert, delete or change to convert one text
 * to the other. */
static size_t distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    size_t row[MOST + 1], n = strlen(b);
    if (n > MOST)
        return SIZE_MAX;
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t before = row[0]++;
        for (size_t k = 0; k < n; k++) {
            const size_t same = before + (a[i] != b[k]);
            before = row[k + 1];
            row[k + 1] = 1 + (row[k] < before ? row[k] : before);
            row[k + 1] = same < row[k + 1] ? same : row[k + 1];
        }
    }
    return row[n];
}

const char *cli_likely(const char *text, const char *const *names)
{
    const char *best = NULL;
    size_t least = strlen(text) < 3 ? 1 : 2;
    for (; *names; names++) {
        const size_t d = distance(text, *names);
        if (d < least || (d == least && !best)) {
            best = *names;
            least = d;
        }
    }
    return best;
}

/* ---- values ---- */

int cli_real(double *out, const char *option, const char *text, double low, double high)
{
    if (!text)
        return CLI_OK;
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(v) || v < low || v > high)
        return cli_fail(CLI_USAGE, "--%s %s: it must be a number from %.10g to %.10g", option, text,
                        low, high);
    *out = v;
    return CLI_OK;
}

int cli_number(uint32_t *out, const char *option, const char *text, uint32_t low, uint32_t high)
{
    double v = 0;
    if (!text)
        return CLI_OK;
    CLI_TRY(cli_real(&v, option, text, low, high));
    if (v != floor(v))
        return cli_fail(CLI_USAGE, "--%s %s: it must be a whole number", option, text);
    *out = (uint32_t)v;
    return CLI_OK;
}

int cli_size(uint32_t *width, uint32_t *height, const char *text)
{
    if (!text)
        return CLI_OK;
    char *end;
    unsigned long long w = strtoull(text, &end, 10), h = w;
    bool ok = end != text && *text >= '0' && *text <= '9';
    if (ok && (*end == 'x' || *end == 'X')) {
        const char *second = end + 1;
        h = strtoull(second, &end, 10);
        ok = end != second && *second >= '0' && *second <= '9';
    }
    if (!ok || *end || w < 1 || h < 1 || w > SIDE_MAX || h > SIDE_MAX)
        return cli_fail(CLI_USAGE, "--size %s: it must be WxH or N, with sides from 1 to %d", text,
                        SIDE_MAX);
    *width = (uint32_t)w;
    *height = (uint32_t)h;
    return CLI_OK;
}

int cli_choose(int *out, const char *option, const char *text, const char *const *names)
{
    if (!text)
        return CLI_OK;
    char all[256] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return CLI_OK;
        }
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", names[i]);
    }
    return cli_fail(CLI_USAGE, "--%s %s: it must be one of %s", option, text, all);
}

const char *cli_dtype_name(fovea_dtype type)
{
    return dtypes[type];
}

const char *cli_compute_name(fovea_compute compute)
{
    return computes[compute];
}

int cli_wisdom(const cli_common *c)
{
    static char *loaded;
    if (!c->wisdom || (loaded && strcmp(c->wisdom, loaded) == 0))
        return CLI_OK;
    const bool none = strcmp(c->wisdom, "none") == 0;
    setenv("FOVEA_WISDOM", none ? "" : c->wisdom, 1);
    if (loaded) /* --wisdom lists several files, and this is not the first */
        fovea_wisdom_forget();
    free(loaded);
    loaded = cli_text("%s", c->wisdom);
    if (none || (c->new_wisdom && access(c->wisdom, F_OK) != 0))
        return CLI_OK;
    /* if the library loads the file by itself, it only logs a failure */
    return cli_check(fovea_wisdom_load(c->wisdom, NULL));
}

int cli_linear_form(fovea_linear_attention_params *out, const cli_common *c)
{
    const struct {
        const char *option, *text;
        float *to;
        double low, high; /* the library's limits */
    } numbers[] = {{"nala-lambda", c->nala_lambda, &out->nala_lambda, 2, 8},
                   {"pola-alpha", c->pola_alpha, &out->pola_alpha, 0.01, 16},
                   {"q-scale", c->q_scale, &out->q_scale, 0.001, 1000}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double value = 0;
        CLI_TRY(
            cli_real(&value, numbers[i].option, numbers[i].text, numbers[i].low, numbers[i].high));
        *numbers[i].to = (float)value;
    }
    return cli_number(&out->heads, "linear-heads", c->linear_heads, 1, 65535);
}

json_t *cli_add_linear_form(json_t *params, const cli_settings *s)
{
    const struct {
        const char *key;
        float value;
    } numbers[] = {{"nala_lambda", s->linear.nala_lambda},
                   {"pola_alpha", s->linear.pola_alpha},
                   {"q_scale", s->linear.q_scale}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value > 0)
            json_object_set_new(params, numbers[i].key, json_real((double)numbers[i].value));
    if (s->linear.heads)
        json_object_set_new(params, "linear_heads", json_integer(s->linear.heads));
    return params;
}

int cli_settle(cli_settings *out, const cli_common *c)
{
    int schedule = 0, type = 0, compute = 0, rigor = FOVEA_RIGOR_DEFAULT - FOVEA_RIGOR_ESTIMATE;
    uint32_t limit = 0;
    double dispatch = 0;
    memset(out, 0, sizeof *out);
    out->device = c->device ? c->device : "auto";
    out->device_options = (fovea_device_options)FOVEA_DEVICE_OPTIONS_INIT;
    out->device_options.isa = c->isa;
    out->device_options.cores = c->cores;
    out->attention = c->attention;
    CLI_TRY(cli_number(&out->device_options.threads, "threads", c->threads, 1, 4096));
    CLI_TRY(cli_choose(&schedule, "schedule", c->schedule, schedules));
    out->backend = -1;
    CLI_TRY(cli_choose(&out->backend, "backend", c->backend, backends));
    CLI_TRY(cli_choose(&type, "dtype", c->dtype, c->stores_int8 ? dtypes : floats));
    if (c->fast && !c->dtype)
        compute = FOVEA_COMPUTE_AUTO;
    CLI_TRY(cli_choose(&compute, "compute", c->compute, computes));
    CLI_TRY(cli_choose(&rigor, "rigor", c->rigor, rigors));
    CLI_TRY(cli_number(&out->chunk, "chunk", c->chunk, 1, 1u << 24));
    CLI_TRY(cli_number(&limit, "memory-limit", c->memory_limit, 1, UINT32_MAX));
    CLI_TRY(cli_real(&dispatch, "max-dispatch-ms", c->max_dispatch, 0.01, 1e6));
    CLI_TRY(cli_size(&out->width, &out->height, c->size));
    CLI_TRY(cli_linear_form(&out->linear, c));
    out->device_options.max_dispatch_seconds = dispatch / 1e3;
    out->schedule = (fovea_schedule)schedule;
    out->memory_limit = (uint64_t)limit << 20;
    if (c->no_exif)
        cli_images_as_stored();
    if (strcmp(out->device, "all") == 0)
        return cli_fail(
            CLI_USAGE, "--device all is not possible here; give one device; fovea info lists them");
    out->dtype = (fovea_dtype)type;
    out->compute = (fovea_compute)compute;
    out->rigor = (fovea_rigor)(rigor + FOVEA_RIGOR_ESTIMATE);
    out->dtype_given = c->dtype != NULL;
    if (type != 0 && !c->half)
        return cli_fail(CLI_UNSUPPORTED, "--dtype %s: this command supports only f32", c->dtype);
    return cli_wisdom(c);
}

/* ---- lists ---- */

void cli_list_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

enum { LIST_MOST = 255 };

static int no_list(const char *option, const char *text)
{
    return cli_fail(CLI_USAGE,
                    "--%s %s: it must be a list of at most %d values, separated by commas", option,
                    text, LIST_MOST);
}

/* Expands a range such as "256..65536*2" or "1..8+1" into `list`, from index *n on. */
static int unfold(char **list, size_t *n, const char *option, const char *item)
{
    unsigned long long low, high, step;
    char how;
    int end = 0;
    if (sscanf(item, "%llu..%llu%c%llu%n", &low, &high, &how, &step, &end) != 4 || item[end] ||
        low < 1 || high > UINT32_MAX || step > UINT32_MAX ||
        !((how == '*' && step > 1) || (how == '+' && step > 0)))
        return cli_fail(CLI_USAGE, "--%s %s: it must be a range A..B*FACTOR or A..B+STEP", option,
                        item);
    if (low > high)
        return cli_fail(CLI_USAGE, "--%s %s: the range is empty; put the smaller number first",
                        option, item);
    for (unsigned long long v = low; v <= high; v = how == '*' ? v * step : v + step) {
        if (*n == LIST_MOST)
            return no_list(option, item);
        list[(*n)++] = cli_text("%llu", v);
    }
    return CLI_OK;
}

static int add_item(char **list, size_t *n, const char *option, const char *text, size_t length)
{
    if (length == 0 || *n == LIST_MOST)
        return no_list(option, text);
    char *item = cli_text("%.*s", (int)length, text);
    if (!strstr(item, "..")) {
        list[(*n)++] = item;
        return CLI_OK;
    }
    const int code = unfold(list, n, option, item);
    free(item);
    return code;
}

int cli_list(char ***out, size_t *n, const char *option, const char *text)
{
    char **list = cli_alloc(LIST_MOST + 1, sizeof *list);
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    const bool all = text && strcmp(option, "device") == 0 && strcmp(text, "all") == 0;
    int code = CLI_OK;
    *n = text ? 0 : 1;
    for (; all && *n < LIST_MOST && fovea_device_list(*n, &device); ++*n)
        list[*n] = cli_text("%s", device.id);
    for (const char *p = all ? NULL : text; p && !code;) {
        const size_t length = strcspn(p, ",");
        code = add_item(list, n, option, p, length);
        p = p[length] ? p + length + 1 : NULL;
    }
    if (code)
        cli_list_free(list);
    else
        *out = list;
    return code;
}
