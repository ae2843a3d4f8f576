/* sequence.c: a sequence consists of a plan for many tokens and a plan for one token that continue
 * the same states; also saves and loads the states. */
#include <fovea/sequences.h>

#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "checkpoint/source.h"
#include "models/model.h"
#include "plan/sequence_plan.h"
#include "run/run.h"

#define ROWS 256
#define CONTEXT 2048
#define MAX_INPUTS 2               /* maximum number of inputs in addition to ids or rows */
#define EXACT_POSITIONS (1u << 24) /* as floats, positions are exact up to this number */

/* The inputs of a plan in addition to ids or rows: s->position or &s->last. */
typedef struct more_inputs {
    const float *data[MAX_INPUTS];
    size_t count;
} more_inputs;

struct fovea_sequence {
    fovea_sequence_options o;
    fovea_plan *many, *one; /* `many` owns the states; `one` is NULL if rows is 1 */
    more_inputs of_many, of_one;
    bool has_cache, has_position;
    uint64_t tokens, fingerprint;
    float *ids, *position; /* inputs of the plans, with `rows` elements each */
    float *unasked;        /* buffer for logits that the caller does not ask for */
    float last;            /* the row of a call whose logits the caller asks for */
};

/* ---- creating a sequence ---- */

/* Returns whether the plan has a cache of keys and values, whose capacity limits the tokens. */
static bool has_cache(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->graph.steps; i++)
        if (p->graph.step[i].prob.op == FV_OP_SOFTMAX_SCAN)
            return true;
    return false;
}

static void find_inputs(more_inputs *out, fovea_sequence *s, const fovea_plan *p)
{
    const char *name;
    for (size_t i = 1; (name = fovea_op_input(p, i)) && out->count < MAX_INPUTS; i++) {
        const bool last = strcmp(name, "last") == 0;
        out->data[out->count++] = last ? &s->last : s->position;
        s->has_position |= !last;
    }
}

static uint64_t logits_rows(const fovea_sequence *s, uint64_t n)
{
    return s->o.all_logits ? n : 1;
}

static uint32_t vocabulary(const fovea_sequence *s)
{
    return s->many->model->info.vocabulary;
}

static fovea_status create(fovea_sequence *s, const fovea_model *model, fovea_device *device)
{
    fv_wisdom *w = fv_wisdom_global();
    const uint32_t rows = s->o.rows;
    const fv_sequence_request many = {.rows = rows, .dry = s->o.dry};
    FV_TRY(fv_sequence_plan(&s->many, model, device, &s->o, &many, w));
    const fv_sequence_request one = {.rows = 1, .kept = s->many, .dry = s->o.dry};
    if (rows > 1)
        FV_TRY(fv_sequence_plan(&s->one, model, device, &s->o, &one, w));
    s->has_cache = has_cache(s->many);
    s->fingerprint = fv_source_fingerprint(model->source);
    FV_TRY(FV_MEM_ARRAY(&s->ids, rows, FV_MEM_PLAN, "the ids of tokens"));
    FV_TRY(FV_MEM_ARRAY(&s->position, rows, FV_MEM_PLAN, "the positions of tokens"));
    find_inputs(&s->of_many, s, s->many);
    if (s->one)
        find_inputs(&s->of_one, s, s->one);
    const uint64_t floats = fv_size_mul(logits_rows(s, rows), vocabulary(s));
    if (floats)
        FV_TRY(FV_MEM_ARRAY(&s->unasked, floats, FV_MEM_PLAN, "logits"));
    return s->o.dry ? FOVEA_OK : fovea_sequence_reset(s);
}

static fovea_status make(fovea_sequence **out, const fovea_model *model, fovea_device *device,
                         const fovea_sequence_options *o)
{
    fovea_sequence *s;
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_PLAN, "the sequence"));
    s->o = *o;
    FV_RETURN_MADE(out, s, fovea_sequence_free, create(s, model, device));
}

fovea_status fovea_sequence_create(fovea_sequence **out, const fovea_model *model,
                                   fovea_device *device, const fovea_sequence_options *options)
{
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    FV_TRY(fv_require(model, "the model"));
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_SEQUENCE_OPTIONS_INIT));
    o.rows = o.rows ? o.rows : ROWS;
    o.context = o.context ? o.context : CONTEXT;
    FV_TRY(fv_sequence_check(&o));
    return make(out, model, device, &o);
}

void fovea_sequence_free(fovea_sequence *s)
{
    if (!s)
        return;
    fovea_plan_free(s->one);
    fovea_plan_free(s->many);
    fv_mem_free(s->ids);
    fv_mem_free(s->position);
    fv_mem_free(s->unasked);
    fv_mem_free(s);
}

fovea_status fovea_sequence_query(const fovea_sequence *s, fovea_sequence_info *out)
{
    FV_TRY(fv_require(s, "the sequence"));
    const fovea_plan_info *many = &s->many->info, *one = s->one ? &s->one->info : many;
    const uint64_t states = fv_plan_kept_bytes(s->many);
    fovea_sequence_info info = FOVEA_SEQUENCE_INFO_INIT;
    info.rows = s->o.rows;
    info.context = s->has_cache ? s->o.context : 0;
    info.vocabulary = vocabulary(s);
    info.width = s->many->model->info.width;
    info.tokens = s->tokens;
    info.weights = many->weights > one->weights ? many->weights : one->weights;
    info.states = states;
    info.activations = fv_plan_activations(many) - states;
    if (s->one)
        info.activations += fv_plan_activations(one) - states;
    info.flops = one->flops;
    return FV_ABI_WRITE(out, info, FOVEA_SEQUENCE_INFO_INIT);
}

fovea_plan *fovea_sequence_prefill_plan(const fovea_sequence *s)
{
    return s->many;
}

fovea_plan *fovea_sequence_decode_plan(const fovea_sequence *s)
{
    return s->one ? s->one : s->many;
}

/* Returns FOVEA_EINVAL if the sequence has no states. */
static fovea_status check_states(const fovea_sequence *s)
{
    FV_TRY(fv_require(s, "the sequence"));
    return s->o.dry ? fv_fail(FOVEA_EINVAL,
                              "this sequence is dry, so it has no states; create it without `dry`")
                    : FOVEA_OK;
}

/* ---- feeding ---- */

/* Returns FOVEA_EINVAL if the cache cannot hold `n` more tokens after `seen` tokens. */
static fovea_status check_capacity(const fovea_sequence *s, uint64_t seen, uint64_t n)
{
    const uint64_t most = s->has_cache ? s->o.context : EXACT_POSITIONS;
    if (!s->has_position || (seen <= most && n <= most - seen))
        return FOVEA_OK;
    return fv_fail(FOVEA_EINVAL,
                   "%llu tokens after %llu are too many: the sequence holds at most %llu; %s",
                   (unsigned long long)n, (unsigned long long)seen, (unsigned long long)most,
                   s->has_cache ? "create it with a larger context" : "reset it");
}

/* Returns FOVEA_EINVAL for wrong arguments, before anything has changed. */
static fovea_status check(const fovea_sequence *s, size_t n, bool ids)
{
    if (ids != (vocabulary(s) != 0))
        return fv_fail(FOVEA_EINVAL, "%s; use %s",
                       ids ? "a token mixer reads rows" : "a language model reads ids",
                       ids ? "fovea_sequence_forward" : "fovea_sequence_feed");
    if (n == 0)
        return fv_fail(FOVEA_EINVAL, "there are no tokens to feed; pass at least 1");
    return check_capacity(s, s->tokens, n);
}

/* Runs a plan on n tokens, whose ids or rows are `first`. */
static fovea_status advance(fovea_sequence *s, fovea_plan *p, uint32_t n, fovea_matrix first,
                            fovea_matrix out)
{
    const more_inputs *others = p == s->one ? &s->of_one : &s->of_many;
    fovea_matrix in[1 + MAX_INPUTS] = {first};
    for (size_t i = 0; i < others->count; i++)
        in[1 + i].data = (void *)(uintptr_t)others->data[i];
    s->last = (float)(n - 1);
    for (uint32_t i = 0; i < n && s->has_position; i++)
        s->position[i] = (float)(s->tokens + i);
    FV_TRY(fv_op_run(p, n, in, 1 + others->count, &out));
    s->tokens += n;
    return FOVEA_OK;
}

/* Returns the plan that runs the next of `left` tokens, and sets *n to how many it runs. */
static fovea_plan *plan_for(const fovea_sequence *s, size_t left, uint32_t *n)
{
    *n = left < s->o.rows ? (uint32_t)left : s->o.rows;
    return *n == 1 && s->one ? s->one : s->many;
}

/* Returns FOVEA_EFORMAT if a logit is NaN, because then no token is the most likely. */
static fovea_status check_logits(const fovea_sequence *s, const float *logits, uint64_t first,
                                 uint64_t rows)
{
    const uint64_t columns = vocabulary(s);
    for (uint64_t row = 0; row < rows; row++) {
        uint32_t wrong = 0;
        for (uint64_t i = 0; i < columns; i++)
            wrong |= logits[row * columns + i] != logits[row * columns + i];
        if (wrong)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: logits of token %llu are NaN, because a weight is NaN or infinite, "
                           "or a value exceeds the range of a 16-bit type; compute in float32 "
                           "(--compute f32), or fetch the weights again",
                           s->many->model->source->name, (unsigned long long)(first + row));
    }
    return FOVEA_OK;
}

fovea_status fovea_sequence_feed(fovea_sequence *s, const uint32_t *ids, size_t n, float *logits,
                                 size_t floats)
{
    FV_TRY(check_states(s));
    FV_TRY(fv_require(ids, "the ids"));
    FV_TRY(check(s, n, true));
    const uint64_t needed = fv_size_mul(logits_rows(s, n), vocabulary(s));
    if (logits && floats < needed)
        return fv_fail(FOVEA_EINVAL, "the buffer holds %zu logits, but %llu are needed", floats,
                       (unsigned long long)needed);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocabulary(s))
            return fv_fail(FOVEA_EINVAL, "token %zu has id %u; the model's ids are 0 to %u", i,
                           ids[i], vocabulary(s) - 1);
    const uint64_t first = s->tokens + n - logits_rows(s, n);
    for (size_t done = 0; done < n;) {
        uint32_t rows;
        fovea_plan *p = plan_for(s, n - done, &rows);
        const bool asked = logits && (s->o.all_logits || done + rows == n);
        float *to = asked && s->o.all_logits ? logits + done * vocabulary(s) : logits;
        for (uint32_t i = 0; i < rows; i++)
            s->ids[i] = (float)ids[done + i];
        FV_TRY(advance(s, p, rows, (fovea_matrix){s->ids, 0},
                       (fovea_matrix){asked ? to : s->unasked, 0}));
        done += rows;
    }
    return logits ? check_logits(s, logits, first, logits_rows(s, n)) : FOVEA_OK;
}

static fovea_status check_rows(const fovea_sequence *s, const fovea_matrix *m, const char *name)
{
    const uint32_t width = s->many->model->info.width;
    if (m->data && (m->stride == 0 || (m->stride >= width && m->stride <= UINT32_MAX)))
        return FOVEA_OK;
    return fv_fail(FOVEA_EINVAL, "%s: the matrix has %s; rows have %u floats", name,
                   m->data ? "an invalid stride" : "no data", width);
}

fovea_status fovea_sequence_forward(fovea_sequence *s, fovea_matrix x, size_t n, fovea_matrix out)
{
    FV_TRY(check_states(s));
    FV_TRY(check(s, n, false));
    FV_TRY(check_rows(s, &x, "the rows of x"));
    FV_TRY(check_rows(s, &out, "the output"));
    const uint32_t width = s->many->model->info.width;
    const size_t from = x.stride ? x.stride : width, to = out.stride ? out.stride : width;
    for (size_t done = 0; done < n;) {
        uint32_t rows;
        fovea_plan *p = plan_for(s, n - done, &rows);
        FV_TRY(advance(s, p, rows, (fovea_matrix){(float *)x.data + done * from, from},
                       (fovea_matrix){(float *)out.data + done * to, to}));
        done += rows;
    }
    return FOVEA_OK;
}

fovea_status fovea_sequence_seek(fovea_sequence *s, uint64_t tokens)
{
    FV_TRY(check_states(s));
    FV_TRY(check_capacity(s, tokens, 0));
    s->tokens = tokens;
    return FOVEA_OK;
}

fovea_status fovea_sequence_reset(fovea_sequence *s)
{
    FV_TRY(check_states(s));
    FV_TRY(fv_plan_kept_reset(s->many));
    s->tokens = 0;
    return FOVEA_OK;
}

/* ---- states as bytes ---- */

/* The header of a saved sequence, which precedes the states. */
typedef struct header {
    char magic[8];
    uint64_t version, fingerprint, context, tokens, bytes;
} header;
#define MAGIC "FOVEASEQ"
#define VERSION 1

static header describe(const fovea_sequence *s)
{
    header h = {.version = VERSION,
                .fingerprint = s->fingerprint,
                .context = s->has_cache ? s->o.context : 0,
                .tokens = s->tokens,
                .bytes = fv_plan_kept_bytes(s->many)};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    return h;
}

size_t fovea_sequence_size(const fovea_sequence *s)
{
    return s ? sizeof(header) + (size_t)fv_plan_kept_bytes(s->many) : 0;
}

fovea_status fovea_sequence_save(const fovea_sequence *s, void *out, size_t bytes)
{
    FV_TRY(check_states(s));
    FV_TRY(fv_require(out, "the pointer to the state"));
    if (bytes != fovea_sequence_size(s))
        return fv_fail(FOVEA_EINVAL,
                       "the buffer has %zu bytes, but the state has %zu; ask fovea_sequence_size",
                       bytes, fovea_sequence_size(s));
    const header h = describe(s);
    memcpy(out, &h, sizeof h);
    return fv_plan_kept_read(s->many, (char *)out + sizeof h, h.bytes);
}

static fovea_status check_saved(const fovea_sequence *s, const header *h, size_t bytes)
{
    const header own = describe(s);
    if (memcmp(h->magic, own.magic, sizeof own.magic) != 0 || h->version != own.version)
        return fv_fail(FOVEA_EFORMAT,
                       "the data is not a state that this version has saved; save it again");
    if (h->fingerprint != own.fingerprint)
        return fv_fail(FOVEA_EFORMAT,
                       "the state belongs to another model; use the model that saved it");
    if (h->context != own.context)
        return fv_fail(
            FOVEA_EFORMAT,
            "the state has a capacity of %llu tokens; create the sequence with that context",
            (unsigned long long)h->context);
    if (h->bytes != own.bytes || bytes != sizeof own + own.bytes || h->tokens >> 48)
        return fv_fail(FOVEA_EFORMAT,
                       "the state has %zu bytes, but should have %zu; it is truncated or damaged",
                       bytes, fovea_sequence_size(s));
    return FOVEA_OK;
}

fovea_status fovea_sequence_restore(fovea_sequence *s, const void *in, size_t bytes)
{
    header h;
    FV_TRY(check_states(s));
    FV_TRY(fv_require(in, "the state"));
    if (bytes < sizeof h)
        return fv_fail(FOVEA_EFORMAT, "the state has only %zu bytes; it is truncated", bytes);
    memcpy(&h, in, sizeof h);
    FV_TRY(check_saved(s, &h, bytes));
    FV_TRY(fv_plan_kept_write(s->many, (const char *)in + sizeof h, h.bytes));
    s->tokens = h.tokens;
    return FOVEA_OK;
}

static fovea_status copy_states(const fovea_sequence *to, const fovea_sequence *from)
{
    const uint64_t bytes = fv_plan_kept_bytes(from->many);
    char *data;
    FV_TRY(FV_MEM_ARRAY(&data, bytes + 1, FV_MEM_PLAN, "the states of a sequence"));
    fovea_status status = fv_plan_kept_read(from->many, data, bytes);
    FV_THEN(status, fv_plan_kept_write(to->many, data, bytes));
    fv_mem_free(data);
    return status;
}

fovea_status fovea_sequence_fork(fovea_sequence **out, const fovea_sequence *s)
{
    fovea_sequence *copy;
    FV_TRY(check_states(s));
    FV_TRY(make(&copy, s->many->model, s->many->device, &s->o));
    copy->tokens = s->tokens;
    FV_RETURN_MADE(out, copy, fovea_sequence_free, copy_states(copy, s));
}
