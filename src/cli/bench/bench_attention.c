/* bench_attention.c: makes an attention a benchmark case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

/* chunk lengths assumed for FLOP counts, even if the library chooses others */
enum { CHUNK = 64, SUB_CHUNK = 16 };

enum attention_kind {
    ATTENTION_SOFTMAX,
    ATTENTION_LINEAR,
    ATTENTION_MALA,
    ATTENTION_MALA_PAPER,
    ATTENTION_POLA,
    ATTENTION_NALA,
    ATTENTION_FOCUSED,
    ATTENTION_HEDGEHOG,  /* its feature maps contain matrix products, whose FLOPs are counted */
    ATTENTION_RETENTION, /* this and the following are only causal */
    ATTENTION_GLA,
    ATTENTION_DELTA,
    ATTENTION_GATED_DELTA,
};

/* Inputs and output of one shape, which all cases of that shape share. Rows are packed. */
typedef struct operands {
    struct operands *next;
    uint32_t users;
    uint32_t rows, heads, d, dv;
    fovea_dtype type;
    void *q, *k, *v, *out; /* elements are of type `type` */
    /* rows x heads*d; this and the following arrays are allocated when first needed */
    float *decay_channel;
    float *decay, *beta, *gate_q, *gate_k; /* rows x heads; gates are logits */
} operands;

typedef struct attention {
    enum attention_kind kind;
    uint32_t features; /* per channel of a key */
    bool gated;
    operands *data;
    char *name;
    fovea_attention_options options;
    bench_reference reference;
} attention;

/* ---- names ---- */

static const struct {
    const char *name;
    enum attention_kind kind;
    uint32_t features;
} attentions[] = {
    {"softmax", ATTENTION_SOFTMAX, 1},
    {"linear", ATTENTION_LINEAR, 1},
    {"mala", ATTENTION_MALA, 1},
    {"mala-paper", ATTENTION_MALA_PAPER, 1},
    {"pola", ATTENTION_POLA, 2},
    {"nala", ATTENTION_NALA, 2},
    {"nala-paper", ATTENTION_NALA, 2},
    {"focused", ATTENTION_FOCUSED, 1},
    {"hedgehog", ATTENTION_HEDGEHOG, 2},
    {"retention", ATTENTION_RETENTION, 1},
    {"gla", ATTENTION_GLA, 1},
    {"delta-rule", ATTENTION_DELTA, 1},
    {"gated-delta-rule", ATTENTION_GATED_DELTA, 1},
};

/* Parses [sla-]NAME[:MAP]. Does not check whether NAME allows the map; the library does. */
static int parse(attention *a, const char *text)
{
    a->gated = strncmp(text, "sla-", 4) == 0;
    const char *name = a->gated ? text + 4 : text;
    const size_t length = strcspn(name, ":");
    const char *map = name[length] ? name + length + 1 : "";
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
        if (strlen(attentions[i].name) == length && !strncmp(attentions[i].name, name, length)) {
            a->kind = attentions[i].kind;
            a->features = strncmp(map, "nala", 4) == 0 || strcmp(map, "hedgehog") == 0
                              ? 2
                              : attentions[i].features;
            a->options.normalise = a->kind < ATTENTION_RETENTION &&
                                   !(a->kind == ATTENTION_LINEAR &&
                                     (strcmp(map, "silu") == 0 || strcmp(map, "identity") == 0));
            return CLI_OK;
        }
    return cli_fail(
        CLI_UNSUPPORTED,
        "bench attention %s is unknown; use softmax, linear[:MAP], mala[:MAP], mala-paper[:MAP], "
        "pola, nala, nala-paper, focused, hedgehog, retention[:MAP], gla[:MAP], delta-rule[:MAP] "
        "or gated-delta-rule[:MAP]; all except softmax may have the prefix sla-",
        text);
}

/* ---- operands ---- */

static operands *shared; /* list of the operands that cases use */

/* Returns pseudo-random values in [middle - reach, middle + reach). */
static float *floats(size_t n, uint64_t seed, float middle, float reach)
{
    float *x = bench_floats(n, seed);
    for (size_t i = 0; i < n; i++)
        x[i] = middle + reach * x[i];
    return x;
}

/* Returns the size in bytes of the output of one token and head. */
static size_t out_size(const operands *o)
{
    return o->dv * (o->type == FOVEA_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Finds or makes the operands of a shape, and adds the inputs that `a` needs. */
static operands *use_operands(const attention *a, const operands *shape)
{
    operands *o = shared;
    while (o && (o->rows != shape->rows || o->heads != shape->heads || o->d != shape->d ||
                 o->dv != shape->dv || o->type != shape->type))
        o = o->next;
    const size_t heads = (size_t)shape->rows * shape->heads, wide = heads * shape->d;
    if (!o) {
        o = cli_alloc(1, sizeof *o);
        *o = *shape;
        o->q = bench_values(wide, o->type, 1);
        o->k = bench_values(wide, o->type, 2);
        o->v = bench_values(heads * o->dv, o->type, 3);
        o->out = cli_alloc(heads, out_size(o));
        /* touches the pages now, so that they do not count as the plan's memory */
        memset(o->out, 0xff, heads * out_size(o));
        o->next = shared;
        shared = o;
    }
    o->users++;
    if (a->kind == ATTENTION_GLA && !o->decay_channel)
        o->decay_channel = floats(wide, 4, -0.05f, 0.05f);
    if (a->kind == ATTENTION_GATED_DELTA && !o->decay)
        o->decay = floats(heads, 5, -0.1f, 0.1f);
    if (a->kind >= ATTENTION_DELTA && !o->beta)
        o->beta = floats(heads, 6, 0.5f, 0.4f);
    if (a->gated && !o->gate_q) {
        o->gate_q = floats(heads, 7, 0.f, 2.f);
        o->gate_k = floats(heads, 8, 0.f, 2.f);
    }
    return o;
}

static void leave_operands(operands *o)
{
    operands **at = &shared;
    if (--o->users)
        return;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    void *const own[] = {o->q,     o->k,    o->v,      o->out,    o->decay_channel,
                         o->decay, o->beta, o->gate_q, o->gate_k, o};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
}

/* ---- cost ---- */

/* Counts the FLOPs, and the bytes that every implementation of the mechanism must move. */
static void count(bench_case *out, const attention *a)
{
    const operands *o = a->data;
    const double n = o->rows, h = o->heads, d = o->d, dv = o->dv, hn = h * n;
    const double p = o->type == FOVEA_DTYPE_F32 ? 4 : 2,
                 pairs = a->options.causal ? n * (n + 1) / 2 : n * n;
    const double wide = a->features * d;
    out->bytes = p * hn * (2 * d + 2 * dv);
    if (a->kind == ATTENTION_SOFTMAX) {
        out->flops = h * pairs * (2 * (d + dv) + 6);
    } else if (a->kind >= ATTENTION_DELTA) {
        out->flops = hn * (CHUNK * (6 * wide + 4 * dv) + 6 * wide * dv + CHUNK * CHUNK / 3.);
    } else if (a->options.causal) {
        out->flops = hn * (2 * CHUNK * (wide + dv) + 4 * wide * dv);
        if (a->kind == ATTENTION_GLA) {
            out->flops += hn * SUB_CHUNK * 3 * d;
            out->bytes += p * hn * d;
        }
    } else {
        static const double rest[] = {
            [ATTENTION_LINEAR] = 5, /* FLOPs per token and channel */
            [ATTENTION_MALA] = 8,      [ATTENTION_MALA_PAPER] = 8, [ATTENTION_POLA] = 8 + 4,
            [ATTENTION_NALA] = 10 + 3, [ATTENTION_FOCUSED] = 8,    [ATTENTION_HEDGEHOG] = 10};
        const bool mala = a->kind == ATTENTION_MALA || a->kind == ATTENTION_MALA_PAPER;
        out->flops = 4 * hn * wide * dv + rest[a->kind] * hn * d;
        out->bytes += 8 * h * (wide * dv + (mala ? 2 : 1) * wide);
    }
    if (a->gated) {
        out->flops += 10 * hn + 2 * hn * d;
        out->bytes += 2 * p * hn;
    }
}

/* ---- the case ---- */

/* Returns the largest allowed error, relative to the largest value. */
static double allowed(const operands *o, fovea_compute compute)
{
    /* rounding error of the output, by fovea_dtype */
    static const double rounding[] = {0, 0x1p-11, 0x1p-8};
    /* The products round weights, features and states, which the float32 reference does not. */
    const double products = compute == FOVEA_COMPUTE_F32 ? 0 : 0x1p-6;
    return 1e-5 + 2e-7 * sqrt(o->rows) + rounding[o->type] + products;
}

/* Verifies the output of the last run, then fills it with NaN: cases share the buffer, and NaN
 * shows values that the next case does not write. */
static int check(bench_case *c, bench_verify *out)
{
    attention *a = c->state;
    const operands *o = a->data;
    const bench_subject what = {.op = &a->options, .input = c->input, .inputs = c->inputs};
    const size_t n = (size_t)o->rows * o->heads * o->dv;
    const int code = bench_verify_output(&a->reference, c->plan, &what, o->out, o->type, n,
                                         allowed(o, c->info.compute), out);
    memset(o->out, 0xff, (size_t)o->rows * o->heads * out_size(o));
    return code;
}

static void release(bench_case *c)
{
    attention *a = c->state;
    free(a->reference.value);
    free(a->name);
    if (a->data)
        leave_operands(a->data);
    free(a);
}

static int bind_inputs(bench_case *c)
{
    const attention *a = c->state;
    const operands *o = a->data;
    const struct {
        const char *name;
        void *data;
    } known[] = {
        {"q", o->q},
        {"k", o->k},
        {"v", o->v},
        {"log_decay", a->kind == ATTENTION_GLA ? o->decay_channel : o->decay},
        {"beta", o->beta},
        {"gate_q", o->gate_q},
        {"gate_k", o->gate_k},
    };
    const char *name;
    for (c->inputs = 0; (name = fovea_op_input(c->plan, c->inputs)); c->inputs++) {
        void *data = NULL;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(known[i].name, name) == 0)
                data = known[i].data;
        if (!data || c->inputs == BENCH_INPUTS)
            return cli_fail(CLI_UNSUPPORTED, "bench attention has no input \"%s\"", name);
        c->input[c->inputs] = (fovea_matrix){data, 0};
    }
    c->out = (fovea_matrix){o->out, 0};
    return CLI_OK;
}

/* Sets the shape and the usual parameters of each mechanism. */
static void set_options(attention *a, const cli_settings *s, const operands *shape, bool causal)
{
    const bool scaled =
        a->kind == ATTENTION_SOFTMAX || a->kind == ATTENTION_MALA || a->kind >= ATTENTION_RETENTION;
    fovea_attention_options *o = &a->options;
    o->schedule = s->schedule;
    o->chunk = s->chunk;
    o->memory_limit = s->memory_limit;
    o->compute = s->compute;
    o->attention = a->name;
    o->rows = shape->rows;
    o->heads = shape->heads;
    o->head_dim = shape->d;
    o->value_dim = shape->dv;
    o->storage = o->out_storage = shape->type;
    o->causal = causal || a->kind >= ATTENTION_RETENTION;
    o->l2norm = a->kind >= ATTENTION_DELTA;
    o->scale = scaled ? 1 / sqrt(shape->d) : a->kind == ATTENTION_MALA_PAPER ? shape->rows : 1;
    o->eps = a->kind == ATTENTION_MALA_PAPER ? 0 : 1e-6;
    o->gates = a->gated ? FOVEA_GATES_LOGITS : FOVEA_GATES_READY;
}

int bench_attention(bench_case *out, const cli_settings *s, const bench_request *o)
{
    static const char *const forms[] = {"auto", "recurrent", "chunk", NULL};
    operands shape = {.rows = 4096, .heads = 12, .d = 64, .type = bench_rows_type(s)};
    int form = 0;
    CLI_TRY(cli_number(&shape.rows, "tokens", o->tokens, 1, 1u << 24));
    CLI_TRY(cli_number(&shape.heads, "heads", o->heads, 1, 4096));
    CLI_TRY(cli_number(&shape.d, "dim", o->dim, 1, 4096));
    shape.dv = shape.d;
    CLI_TRY(cli_number(&shape.dv, "value-dim", o->value_dim, 1, 4096));
    CLI_TRY(cli_choose(&form, "form", o->form, forms));
    attention *a = cli_alloc(1, sizeof *a);
    a->options = (fovea_attention_options)FOVEA_ATTENTION_OPTIONS_INIT;
    out->state = a;
    out->run = bench_run_op;
    out->check = check;
    out->release = release;
    CLI_TRY(parse(a, s->attention));
    a->name = cli_text("%s", s->attention);
    set_options(a, s, &shape, o->causal);
    a->options.form = (fovea_form)form;
    a->data = use_operands(a, &shape);
    bench_plan_begin(out);
    CLI_TRY(cli_check(fovea_attention_plan_create(&out->plan, out->on->device, &a->options)));
    CLI_TRY(bind_inputs(out));
    bench_plan_end(out);
    char values[16] = "";
    if (shape.dv != shape.d)
        snprintf(values, sizeof values, "x%u", shape.dv);
    out->title = cli_text("%s%s %ux%u%s%s%s%s N=%u", s->attention,
                          o->causal && a->kind < ATTENTION_RETENTION ? " causal" : "", shape.heads,
                          shape.d, values, bench_types(shape.type, out->info.compute).text,
                          form ? " " : "", form ? forms[form] : "", shape.rows);
    out->params =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:b, s:s}", "what", "attention", "attention",
                  s->attention, "tokens", (int)shape.rows, "heads", (int)shape.heads, "dim",
                  (int)shape.d, "value_dim", (int)shape.dv, "dtype", cli_dtype_name(shape.type),
                  "causal", a->options.causal, "form", forms[form]);
    count(out, a);
    return CLI_OK;
}
