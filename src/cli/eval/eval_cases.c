/* eval_cases.c: every combination of the lists of options, picture by picture. */
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
                              r->n_outputs));
    if (!r->other)
        return CLI_OK;
    settings.attention = NULL; /* the other model's own, in float32 */
    settings.compute = FOVEA_COMPUTE_F32;
    settings.dtype = FOVEA_DTYPE_F32;
    return eval_runner_begin(&c->reference, r->against, r->other, r->s.device, &settings,
                             &r->other_output, 1);
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

static int measure(json_t *record, eval_run *r, eval_case *c, size_t index)
{
    dataset_picture p;
    double seconds;
    int code = dataset_read(&p, &r->data, index);
    if (code)
        return code == CLI_INPUT ? EVAL_SKIP : code;
    code = eval_runner_picture(&c->run, &p, &seconds);
    if (!code) {
        json_object_set_new(record, "ms", json_real(seconds * 1e3));
        json_object_set_new(record, "width", json_integer((json_int_t)c->run.info.width));
        json_object_set_new(record, "height", json_integer((json_int_t)c->run.info.height));
        code = r->task->measure(record, r, c, &p, index);
    }
    dataset_picture_free(&p);
    return code;
}

static int add_picture(eval_run *r, eval_case *c, size_t index)
{
    json_t *record = json_object();
    int code = measure(record, r, c, index);
    if (code == EVAL_SKIP && r->common.strict) {
        code = CLI_INPUT;
    } else if (code == EVAL_SKIP) {
        json_object_clear(record);
        json_object_set_new(record, "broken", json_true());
        code = CLI_OK;
    }
    CLI_THEN(code, eval_journal_add(r, record));
    if (!code)
        json_array_append(c->records, record);
    json_decref(record);
    return code;
}

static size_t count_left(const eval_run *r)
{
    size_t left = 0;
    for (size_t i = 0; i < r->cases; i++)
        left += r->data.n - json_array_size(r->list[i].records);
    return left;
}

static void describe(char *text, size_t room, const eval_case *c, double rate)
{
    snprintf(text, room, "%.40s%s%s%s%s, %.3g pictures/s", c->attention ? c->attention : "eval",
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
    int code = CLI_OK;
    cli_progress_begin(&bar, text);
    for (size_t i = 0; i < r->cases && !code; i++) {
        eval_case *c = &r->list[i];
        for (size_t k = json_array_size(c->records); k < r->data.n && !code; k++) {
            code = interrupt_code();
            CLI_THEN(code, add_picture(r, c, k));
            done++;
            describe(text, sizeof text, c, (double)done / (cli_seconds() - begin));
            cli_progress_show(&bar, (double)done, (double)left);
        }
        eval_runner_end(&c->run);
        eval_runner_end(&c->reference);
    }
    cli_progress_end(&bar);
    return code;
}
