/* cmd_lm.c: `fovea lm`: continues a prompt, or computes its logits. Input and output are token ids;
 * the program has no tokenizers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/sequences.h>

#include "cli/common/cli.h"
#include "cli/common/interrupt.h"
#include "cli/run/lm_sampler.h"

enum { MOST = 1 << 24 };

typedef struct lm {
    cli_common common;
    const char *ids_text, *generate_text, *top_k_text, *temperature_text, *seed_text;
    const char *context_text, *rows_text, *stop_text, *output, *form_text;
    uint32_t generate, top_k, seed, stop;
    double temperature;
    cli_session session;
    fovea_sequence *sequence;
    fovea_sequence_info info;
    uint32_t *id; /* the prompt, followed by the generated tokens */
    uint32_t prompt, count;
    float *logits; /* logits of the last token, or with -o, of all tokens of the prompt */
    double prefill, decode;
} lm;

/* ---- ids ---- */

static int add_id(lm *r, const char *text, size_t *used)
{
    char *end;
    errno = 0;
    const unsigned long long id = strtoull(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || errno || id >= r->info.vocabulary)
        return cli_fail(CLI_USAGE,
                        "--ids: \"%.20s\" is not a token id; the model's ids are 0 to %u", text,
                        r->info.vocabulary - 1);
    if (r->prompt == MOST)
        return cli_fail(CLI_USAGE, "--ids has more than %d tokens; shorten the prompt", MOST);
    r->id = cli_grow(r->id, r->prompt, sizeof *r->id);
    r->id[r->prompt++] = (uint32_t)id;
    *used = (size_t)(end - text);
    return CLI_OK;
}

/* Parses numbers separated by commas, blanks or line feeds. */
static int read_ids(lm *r, const char *text)
{
    static const char between[] = ", \t\r\n[]";
    for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
        size_t used = 0;
        CLI_TRY(add_id(r, at, &used));
        at += used;
        if (*at && !strchr(between, *at))
            return cli_fail(CLI_USAGE,
                            "--ids: \"%.20s\" follows an id; separate ids by commas or spaces", at);
    }
    return r->prompt ? CLI_OK
                     : cli_fail(CLI_USAGE, "--ids is empty; give the token ids of the prompt");
}

static int read_stream(lm *r, FILE *from)
{
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text && !feof(from) && !ferror(from)) {
        n += fread(text + n, 1, capacity - 1 - n, from);
        if (n + 1 == capacity) {
            char *larger = realloc(text, capacity *= 2);
            if (!larger)
                free(text);
            text = larger;
        }
    }
    if (!text || ferror(from)) {
        free(text);
        return cli_fail(CLI_INPUT, "--ids -: standard input cannot be read");
    }
    text[n] = 0;
    const int code = read_ids(r, text);
    free(text);
    return code;
}

/* ---- options ---- */

static const char *const forms[] = {"auto", "recurrent", "chunk", NULL};

static int read_options(lm *r, fovea_sequence_options *o)
{
    const cli_settings *s = &r->session.settings;
    int form = 0;
    CLI_TRY(cli_number(&r->generate, "generate", r->generate_text, 0, MOST));
    CLI_TRY(cli_number(&r->top_k, "top-k", r->top_k_text, 1, UINT32_MAX));
    CLI_TRY(cli_number(&r->seed, "seed", r->seed_text, 0, UINT32_MAX));
    CLI_TRY(cli_number(&r->stop, "stop", r->stop_text, 0, UINT32_MAX - 1));
    CLI_TRY(cli_real(&r->temperature, "temperature", r->temperature_text, 0, 1e6));
    CLI_TRY(cli_number(&o->context, "context", r->context_text, 1, MOST));
    CLI_TRY(cli_number(&o->rows, "rows", r->rows_text, 1, 1 << 20));
    CLI_TRY(cli_choose(&form, "form", r->form_text, forms));
    if (!r->session.info.vocabulary)
        return cli_fail(CLI_UNSUPPORTED, "lm needs a language model, but this %s",
                        r->session.info.sequence ? "is one token mixer, which reads rows of numbers"
                                                 : "model reads pictures; use fovea run");
    r->info.vocabulary = r->session.info.vocabulary;
    o->form = (fovea_form)form;
    o->all_logits = r->output != NULL;
    o->schedule = s->schedule;
    o->weights = s->dtype;
    o->compute = s->compute;
    o->memory_limit = s->memory_limit;
    return CLI_OK;
}

/* ---- running ---- */

/* Returns the logits of the last token that was run. */
static float *last_logits(const lm *r)
{
    const size_t rows = r->output && r->count == r->prompt ? r->prompt : 1;
    return r->logits + (rows - 1) * r->info.vocabulary;
}

static int feed_prompt(lm *r)
{
    const size_t floats = (size_t)(r->output ? r->prompt : 1) * r->info.vocabulary;
    cli_progress bar;
    r->logits = cli_alloc(floats, sizeof *r->logits);
    r->count = r->prompt;
    cli_progress_begin(&bar, "prompt");
    const double begin = cli_seconds();
    const int code =
        cli_check(fovea_sequence_feed(r->sequence, r->id, r->prompt, r->logits, floats));
    r->prefill = cli_seconds() - begin;
    cli_progress_end(&bar);
    return code;
}

static int write_logits(const lm *r)
{
    const uint64_t shape[2] = {r->prompt, r->info.vocabulary};
    return r->output ? cli_npy_write(r->output, r->logits, shape, 2) : CLI_OK;
}

static int generate(lm *r)
{
    lm_sampler s = lm_sampler_make(r->info.vocabulary, r->top_k, r->temperature, r->seed);
    const double begin = cli_seconds();
    const bool shown = r->common.json; /* without --json, the printed tokens show the progress */
    cli_progress bar;
    int code = CLI_OK;
    if (shown) {
        cli_progress_begin(&bar, "generate");
        bar.unit = "tokens";
    }
    for (uint32_t i = 0; i < r->generate && !interrupt_code(); i++) {
        const uint32_t next = lm_sampler_next(&s, last_logits(r));
        r->id = cli_grow(r->id, r->count, sizeof *r->id);
        r->id[r->count++] = next;
        if (shown) {
            cli_progress_show(&bar, i + 1., r->generate);
        } else {
            printf(i ? " %u" : "%u", next);
            fflush(stdout);
        }
        if (next == r->stop || i + 1 == r->generate)
            break;
        code = cli_check(fovea_sequence_feed(r->sequence, &next, 1, r->logits, r->info.vocabulary));
        if (code)
            break;
    }
    r->decode = cli_seconds() - begin;
    if (shown)
        cli_progress_end(&bar);
    if (!shown && r->generate)
        putchar('\n');
    lm_sampler_free(&s);
    return code ? code : interrupt_code();
}

static json_t *list_ids(const uint32_t *id, uint32_t n)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(out, json_integer(id[i]));
    return out;
}

static double per_second(uint32_t tokens, double seconds)
{
    return tokens && seconds > 0 ? tokens / seconds : 0;
}

/* Returns the number of decoded tokens. The first generated token needs no decoding, because the
 * prompt's logits determine it. */
static uint32_t decoded(const lm *r)
{
    return r->count > r->prompt ? r->count - r->prompt - 1 : 0;
}

static void print_json(const lm *r)
{
    const float *logits = last_logits(r);
    uint32_t best = 0;
    for (uint32_t i = 1; i < r->info.vocabulary; i++)
        best = logits[i] > logits[best] ? i : best;
    cli_print_json(json_pack(
        "{s:s, s:o, s:o, s:i, s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:f, s:f}", "schema",
        "fovea.lm/1", "build", cli_build(), "env", cli_environment(r->session.device), "prompt",
        (int)r->prompt, "generated", list_ids(r->id + r->prompt, r->count - r->prompt), "logit",
        cli_json_number(logits[best]), "tokens", (json_int_t)r->info.tokens, "weights",
        (json_int_t)r->info.weights, "states", (json_int_t)r->info.states, "activations",
        (json_int_t)r->info.activations, "context", (int)r->info.context, "prefill_seconds",
        r->prefill, "prefill_tokens_per_second", per_second(r->prompt, r->prefill),
        "decode_seconds", r->decode, "decode_tokens_per_second",
        per_second(decoded(r), r->decode)));
}

static void tell_rates(const lm *r)
{
    fprintf(stderr, "fovea: %u tokens of the prompt in %.3f s, %.1f per second", r->prompt,
            r->prefill, per_second(r->prompt, r->prefill));
    if (decoded(r))
        fprintf(stderr, "; then %.1f per second, %.2f ms each", per_second(decoded(r), r->decode),
                1e3 * r->decode / decoded(r));
    fprintf(stderr, "; states %s\n", cli_bytes(r->info.states).text);
}

static int run(lm *r)
{
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    CLI_TRY(read_options(r, &o));
    if (r->output)
        CLI_TRY(cli_output_check(r->output));
    CLI_TRY(strcmp(r->ids_text, "-") == 0 ? read_stream(r, stdin) : read_ids(r, r->ids_text));
    if (!o.context)
        o.context = r->prompt + r->generate > 2048 ? r->prompt + r->generate : 2048;
    cli_progress bar;
    cli_progress_begin(&bar, "plan");
    const int code =
        cli_check(fovea_sequence_create(&r->sequence, r->session.model, r->session.device, &o));
    cli_progress_end(&bar);
    CLI_TRY(code);
    interrupt_catch("run");
    CLI_TRY(feed_prompt(r));
    CLI_TRY(write_logits(r));
    const int end = generate(r);
    fovea_sequence_query(r->sequence, &r->info);
    if (!end || end == interrupt_code())
        r->common.json ? print_json(r) : tell_rates(r);
    return end;
}

int cli_lm(const cli_command *self, int argc, char **argv)
{
    lm r = {.common = {.half = "type of the weights: f32, f16, bf16; in blocks also int8",
                       .stores_int8 = true},
            .stop = UINT32_MAX,
            .info = FOVEA_SEQUENCE_INFO_INIT};
    const cli_option own[] = {
        {"ids", 0, "1,2,3", "token ids of the prompt; -: read them from standard input",
         &r.ids_text},
        {"generate", 'n', "N", "number of tokens to generate (default 0)", &r.generate_text},
        {"top-k", 0, "K", "with --temperature, choose among the K most likely tokens",
         &r.top_k_text},
        {"temperature", 0, "T",
         "sample with the probabilities softmax(logits / T); 0: use the most likely token (default "
         "0)",
         &r.temperature_text},
        {"seed", 0, "N", "seed of the random numbers (default 0)", &r.seed_text},
        {"stop", 0, "ID", "stop after this token", &r.stop_text},
        {"context", 0, "N",
         "capacity of the softmax blocks' cache, in tokens (default: the number of tokens of this "
         "run)",
         &r.context_text},
        {"rows", 0, "N", "tokens of the prompt per call (default 256)", &r.rows_text},
        {"form", 0, "NAME", "form of linear attention for the prompt: auto, recurrent, chunk",
         &r.form_text, .choices = forms},
        {"output", 'o', "FILE.npy", "file for the logits of every token of the prompt", &r.output},
        {NULL},
    };
    int first, code = cli_parse(&first, self, &r.common, own, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 != argc || !r.ids_text)
        return cli_fail(CLI_USAGE, "lm needs one MODEL and --ids; see fovea lm --help");
    CLI_TRY(cli_open(&r.session, &r.common, argv[first]));
    code = run(&r);
    fovea_sequence_free(r.sequence);
    free(r.logits);
    free(r.id);
    cli_close(&r.session);
    return code;
}
