/* eval_cases.c: runs every combination of the options' lists, batch by batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/interrupt.h"
#include "cli/eval/eval.h"

bool eval_want(eval_run *r, const char *name)
{
    const char *own = cli_output_name(r->s.model, name);
    if (own && r->n_outputs < EVAL_OUTPUTS)
        r->outputs[r->n_outputs++] = own;
    return own != NULL;
}

double eval_mean(const json_t *records, const char *key)
{
    const double n = (double)json_array_size(records);
    double sum = 0;
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record) {
        const json_t *value = json_object_get(record, key);
        sum += json_is_number(value) ? json_number_value(value) / n : NAN;
    }
    return sum;
}

char *eval_picture_name(const eval_run *r, size_t index)
{
    return r->data.file ? cli_text("%s", r->data.file[index].path)
                        : cli_text("%s[%zu]", r->data_path, index);
}

/* ---- the combinations ---- */

static int add_case(eval_run *r, const char *attention, const char *compute, const char *size)
{
    eval_case *c = &r->list[r->cases++];
    cli_settings settings;
    cli_common common = r->common;
    *c = (eval_case){.attention = attention, .compute = compute, .size = size};
    c->records = json_array();
    common.attention = attention;
    common.compute = compute;
    common.size = size;
    CLI_TRY(cli_settle(&settings, &common));
    CLI_TRY(eval_runner_begin(&c->run, r->path, r->s.model, r->s.device, &settings, r->outputs,
                              r->n_outputs, r->batch));
    if (!r->other)
        return CLI_OK;
    settings.attention = NULL; /* the reference runs with its own attention, in float32 */
    settings.compute = FOVEA_COMPUTE_F32;
    settings.dtype = FOVEA_DTYPE_F32;
    return eval_runner_begin(&c->reference, r->against, r->other, r->s.device, &settings,
                             &r->other_output, 1, r->batch);
}

int eval_cases_begin(eval_run *r)
{
    size_t attentions, computes, sizes;
    CLI_TRY(cli_list(&r->attentions, &attentions, "attention", r->common.attention));
    CLI_TRY(cli_list(&r->computes, &computes, "compute", r->common.compute));
    CLI_TRY(cli_list(&r->sizes, &sizes, "size", r->common.size));
    r->list = cli_alloc(attentions * computes * sizes, sizeof *r->list);
    for (size_t s = 0; s < sizes; s++)
        for (size_t a = 0; a < attentions; a++)
            for (size_t k = 0; k < computes; k++)
                CLI_TRY(add_case(r, r->attentions[a], r->computes[k], r->sizes[s]));
    return CLI_OK;
}

void eval_cases_end(eval_run *r)
{
    for (size_t i = 0; i < r->cases; i++) {
        eval_runner_end(&r->list[i].run);
        eval_runner_end(&r->list[i].reference);
        json_decref(r->list[i].records);
    }
    free(r->list);
    cli_list_free(r->attentions);
    cli_list_free(r->computes);
    cli_list_free(r->sizes);
}

/* ---- pictures ---- */

/* The run and case that are being recorded. */
typedef struct measuring {
    eval_run *run;
    eval_case *of;
    double seconds; /* seconds per frame */
    uint32_t frame; /* index of the next frame */
} measuring;

static int run_frames(measuring *m, const eval_batch *b)
{
    double seconds;
    if (b->frames == 0)
        return CLI_OK;
    CLI_TRY(eval_runner_run(&m->of->run, b, &m->seconds));
    return m->run->other ? eval_runner_run(&m->of->reference, b, &seconds) : CLI_OK;
}

static int measure(json_t *record, measuring *m, const eval_slot *s, size_t index)
{
    eval_case *c = m->of;
    if (s->code)
        return s->code;
    eval_runner_look(&c->run, m->frame);
    if (m->run->other)
        eval_runner_look(&c->reference, m->frame);
    m->frame++;
    json_object_set_new(record, "ms", json_real(m->seconds * 1e3));
    json_object_set_new(record, "width", json_integer((json_int_t)c->run.info.width));
    json_object_set_new(record, "height", json_integer((json_int_t)c->run.info.height));
    return m->run->task->measure(record, m->run, c, &s->picture, index);
}

static int add_picture(measuring *m, const eval_slot *s, size_t index)
{
    json_t *record = json_object();
    int code = measure(record, m, s, index);
    if (code == EVAL_SKIP && m->run->common.strict) {
        code = CLI_INPUT;
    } else if (code == EVAL_SKIP) {
        json_object_clear(record);
        json_object_set_new(record, "broken", json_true());
        code = CLI_OK;
    }
    CLI_THEN(code, eval_journal_add(m->run, record));
    if (!code)
        json_array_append(m->of->records, record);
    json_decref(record);
    return code;
}

/* Runs the next batch of pictures, and sets *done to its number of pictures. */
static int add_batch(size_t *done, eval_run *r, eval_case *c, eval_batch *b)
{
    measuring m = {.run = r, .of = c};
    const size_t first = json_array_size(c->records);
    eval_batch_read(b, &r->data, first, r->common.strict);
    int code = run_frames(&m, b);
    for (uint32_t i = 0; i < b->slots && !code; i++)
        code = add_picture(&m, &b->slot[i], first + i);
    *done = b->slots;
    return code;
}

static size_t count_left(const eval_run *r)
{
    size_t left = 0;
    for (size_t i = 0; i < r->cases; i++)
        left += r->data.n - json_array_size(r->list[i].records);
    return left;
}

static void describe(char *text, size_t size, const eval_case *c, double rate)
{
    snprintf(text, size, "%.40s%s%s%s%s, %.3g pictures/s", c->attention ? c->attention : "eval",
             c->compute ? " " : "", c->compute ? c->compute : "", c->size ? " " : "",
             c->size ? c->size : "", rate);
}

int eval_cases_run(eval_run *r)
{
    const size_t left = count_left(r);
    const double begin = cli_seconds();
    char text[96] = "eval";
    size_t done = 0;
    cli_progress bar;
    eval_batch batch;
    int code = CLI_OK;
    eval_batch_begin(&batch, r->batch);
    cli_progress_begin(&bar, text);
    for (size_t i = 0; i < r->cases && !code; i++) {
        eval_case *c = &r->list[i];
        while (json_array_size(c->records) < r->data.n && !code) {
            size_t more = 0;
            code = interrupt_code();
            CLI_THEN(code, add_batch(&more, r, c, &batch));
            done += more;
            describe(text, sizeof text, c, (double)done / (cli_seconds() - begin));
            cli_progress_show(&bar, (double)done, (double)left);
        }
        eval_runner_end(&c->run);
        eval_runner_end(&c->reference);
    }
    cli_progress_end(&bar);
    eval_batch_end(&batch);
    return code;
}
