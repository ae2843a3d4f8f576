/* bench_lm.c: makes a language model a benchmark case: a call with one token, or with a prompt of
 * many, after a given number of earlier tokens. */
#include <stdlib.h>
#include <string.h>

#include <fovea/sequences.h>

#include "cli/bench/bench.h"

enum { MOST = 1 << 24 };

struct lm_run {
    fovea_sequence *sequence;
    uint32_t seen, tokens; /* seen: tokens before a run; tokens: tokens of the run */
    uint32_t *ids;
    float *logits;
    uint32_t vocabulary;
};

/* Runs the case after the same number of tokens each time. Linear mixers cannot go back, so they
 * continue from their current state, which takes equally long. */
static int run(bench_case *c, double *seconds)
{
    const struct lm_run *r = c->state;
    CLI_TRY(cli_check(fovea_sequence_seek(r->sequence, r->seen)));
    const int code =
        cli_check(fovea_sequence_feed(r->sequence, r->ids, r->tokens, r->logits, r->vocabulary));
    *seconds = fovea_plan_seconds(c->plan);
    return code;
}

static int check(bench_case *c, bench_verify *out)
{
    return bench_verify_steps(c->plan, out);
}

static void release(bench_case *c)
{
    struct lm_run *r = c->state;
    fovea_sequence_free(r->sequence);
    c->plan = NULL; /* the plan belongs to the sequence */
    free(r->ids);
    free(r->logits);
    free(r);
}

/* Returns the bytes that a call must move: the weights of products once, and the state of earlier
 * tokens. Softmax reads its cache of the previous tokens; linear mixers read and write their whole
 * state. */
static double least_bytes(const bench_case *c, const struct lm_run *r)
{
    static const double size[] = {4, 2, 2, 1}; /* by fovea_dtype */
    fovea_sequence_info info = FOVEA_SEQUENCE_INFO_INIT;
    fovea_step_info s = FOVEA_STEP_INFO_INIT;
    double sum = 0;
    fovea_sequence_query(r->sequence, &info);
    for (size_t i = 0; fovea_plan_step(c->plan, i, &s); i++) {
        const bool pairs = s.activation && strcmp(s.activation, "swiglu") == 0;
        if (strcmp(s.op, "gemm") == 0)
            sum += size[s.weight_dtype] * (pairs ? 2. : 1.) * s.n * s.k;
    }
    return sum +
           (info.context ? (double)info.states * r->seen / info.context : 2. * (double)info.states);
}

static int read_tokens(struct lm_run *r, const bench_request *request, uint32_t *rows)
{
    static const char *const phases[] = {"prefill", "decode", NULL};
    int phase = 1;
    r->seen = 1024;
    *rows = 256;
    CLI_TRY(cli_choose(&phase, "phase", request->phase, phases));
    CLI_TRY(cli_number(&r->seen, "tokens", request->tokens, 0, MOST));
    CLI_TRY(cli_number(rows, "rows", request->rows, 1, 1 << 16));
    r->tokens = phase ? 1 : *rows;
    return CLI_OK;
}

int bench_lm(bench_case *out, const cli_settings *s, const bench_request *request)
{
    static const char *const forms[] = {"auto", "recurrent", "chunk", NULL};
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    struct lm_run *r = cli_alloc(1, sizeof *r);
    int form = 0;
    out->state = r;
    out->run = run;
    out->check = check;
    out->release = release;
    fovea_model_describe(request->model, &info);
    if (!info.vocabulary)
        return cli_fail(CLI_UNSUPPORTED,
                        "bench lm %s: this is not a language model; use bench model",
                        request->name);
    CLI_TRY(read_tokens(r, request, &o.rows));
    CLI_TRY(cli_choose(&form, "form", request->form, forms));
    o.form = (fovea_form)form;
    o.context = r->seen + r->tokens;
    o.schedule = s->schedule;
    o.weights = s->dtype;
    o.compute = s->compute;
    o.memory_limit = s->memory_limit;
    r->vocabulary = info.vocabulary;
    r->logits = cli_alloc(info.vocabulary, sizeof *r->logits);
    r->ids = cli_alloc(r->tokens, sizeof *r->ids);
    for (uint32_t i = 0; i < r->tokens; i++)
        r->ids[i] = (uint32_t)(i * 2654435761u) % info.vocabulary;
    bench_plan_begin(out);
    CLI_TRY(cli_check(fovea_sequence_create(&r->sequence, request->model, out->on->device, &o)));
    out->plan = r->tokens > 1 ? fovea_sequence_prefill_plan(r->sequence)
                              : fovea_sequence_decode_plan(r->sequence);
    bench_plan_end(out);
    out->flops = out->info.flops;
    out->bytes = least_bytes(out, r);
    out->tokens = r->tokens;
    const char *phase = r->tokens > 1 ? "prefill" : "decode";
    out->title = cli_text("%s %s after %u%s", request->name, phase, r->seen,
                          bench_types(s->dtype, out->info.compute).text);
    out->params = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "what", "lm", "model", request->name,
                            "dtype", cli_dtype_name(s->dtype), "phase", phase, "tokens",
                            (int)r->seen, "rows", (int)r->tokens);
    return CLI_OK;
}
