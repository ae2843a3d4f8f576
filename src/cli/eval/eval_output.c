/* eval_output.c: writes the results of an evaluation, for people and for programs. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/text_table.h"
#include "cli/eval/eval.h"

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", NULL};

int eval_output_check(eval_run *r)
{
    const char *dot = r->output ? strrchr(cli_file_name(r->output), '.') : NULL;
    r->format = r->common.json ? EVAL_JSONL : EVAL_TEXT;
    for (int i = 0; dot && formats[i]; i++)
        if (strcmp(dot + 1, formats[i]) == 0)
            r->format = i;
    CLI_TRY(cli_choose(&r->format, "format", r->format_text, formats));
    return r->output ? cli_output_check(r->output) : CLI_OK;
}

void eval_tell_mapping(eval_run *r, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    free(r->mapping);
    r->mapping = cli_text("%s", text);
    cli_tell("%s", text);
}

/* ---- results from records ---- */

static json_t *measured(const json_t *records)
{
    json_t *out = json_array(), *record;
    size_t i;
    json_array_foreach(records, i, record) {
        if (!json_object_get(record, "broken"))
            json_array_append(out, record);
    }
    return out;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(const json_t *records)
{
    const size_t n = json_array_size(records);
    double *ms = cli_alloc(n, sizeof *ms);
    for (size_t i = 0; i < n; i++)
        ms[i] = json_number_value(json_object_get(json_array_get(records, i), "ms"));
    qsort(ms, n, sizeof *ms, ascending);
    const double median = (ms[(n - 1) / 2] + ms[n / 2]) / 2;
    free(ms);
    return median;
}

/* Adds the size that the model saw, if it was the same for all pictures. */
static void set_size(json_t *params, const json_t *records)
{
    static const char *const keys[] = {"width", "height"};
    json_t *record, *first = json_array_get(records, 0);
    size_t i;
    json_array_foreach(records, i, record)
        for (int k = 0; k < 2; k++)
            if (!json_equal(json_object_get(record, keys[k]), json_object_get(first, keys[k])))
                return;
    for (int k = 0; k < 2; k++)
        json_object_set(params, keys[k], json_object_get(first, keys[k]));
}

static json_t *describe(const eval_run *r, const eval_case *c)
{
    fovea_device_info device = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(r->s.device, &device);
    json_t *records = measured(c->records);
    const size_t all = json_array_size(c->records), n = json_array_size(records);
    json_t *params = json_pack("{s:o, s:o, s:s, s:s, s:s, s:s}", "model", cli_json_text(r->path),
                               "data", cli_json_text(r->data_path), "task", r->task->name,
                               "attention", cli_attention(&c->run.settings, &r->s.info), "compute",
                               cli_compute_name(c->run.info.compute), "device", device.id);
    cli_add_linear_form(params, &c->run.settings);
    if (r->against)
        json_object_set_new(params, "against", cli_json_text(r->against));
    if (r->annotations_path)
        json_object_set_new(params, "annotations", cli_json_text(r->annotations_path));
    if (r->task == &eval_depth)
        json_object_set_new(params, "align", json_string(eval_aligns[r->align]));
    if (r->batch > 1)
        json_object_set_new(params, "batch", json_integer(r->batch));
    set_size(params, records);
    json_t *result = json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:o}", "schema", EVAL_SCHEMA,
                               "build", cli_build(), "env", cli_environment(r->s.device), "params",
                               params, "pictures", (json_int_t)n, "skipped", (json_int_t)(all - n),
                               "metrics", r->task->metrics(r, records));
    if (r->mapping)
        json_object_set_new(result, "mapping", cli_json_text(r->mapping));
    json_object_set_new(result, "ms", json_real(median_ms(records)));
    json_decref(records);
    return result;
}

/* ---- a table ---- */

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void put_result(text_table *t, const eval_run *r, const json_t *result)
{
    const json_t *params = json_object_get(result, "params");
    const json_t *metrics = json_object_get(result, "metrics");
    const json_int_t width = json_integer_value(json_object_get(params, "width"));
    const json_int_t height = json_integer_value(json_object_get(params, "height"));
    table_put(t, "%s", word(params, "attention"));
    table_put(t, "%s", word(params, "compute"));
    if (width)
        table_put(t, "%lldx%lld", (long long)width, (long long)height);
    else
        table_put(t, "various");
    for (const eval_column *k = r->task->columns; k->key; k++) {
        const json_t *value = json_object_get(metrics, k->key);
        if (json_is_number(value))
            table_put(t, "%.4f", json_number_value(value));
        else
            table_put(t, "-");
    }
    table_put(t, "%lld", (long long)json_integer_value(json_object_get(result, "pictures")));
    table_put(t, "%lld", (long long)json_integer_value(json_object_get(result, "skipped")));
    table_put(t, "%.1f", json_number_value(json_object_get(result, "ms")));
}

static void write_table(FILE *to, const eval_run *r, const json_t *results)
{
    const char *heads[TABLE_COLUMNS + 1] = {"<attention", "compute", "size"};
    static const char *const last[] = {"pictures", "skipped", "ms"};
    size_t n = 3, i;
    json_t *result;
    text_table t;
    for (const eval_column *k = r->task->columns; k->key; k++)
        heads[n++] = k->head;
    for (i = 0; i < 3; i++)
        heads[n++] = last[i];
    table_begin(&t, heads);
    json_array_foreach(results, i, result)
        put_result(&t, r, result);
    table_end(&t, to, r->format == EVAL_MD);
    if (r->mapping && r->output) /* without -o, stderr shows the text already */
        fprintf(to, "\n%s\n", r->mapping);
}

/* ---- files ---- */

static void write_results(FILE *to, const eval_run *r, const json_t *results)
{
    size_t i;
    json_t *result;
    switch (r->format) {
    case EVAL_JSONL:
        json_array_foreach(results, i, result) {
            json_dumpf(result, to, JSON_COMPACT | JSON_REAL_PRECISION(17));
            fputc('\n', to);
        }
        return;
    case EVAL_JSON:
        json_dumpf(results, to, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
        fputc('\n', to);
        return;
    case EVAL_CSV:
        cli_csv_write(to, results);
        return;
    default:
        write_table(to, r, results);
    }
}

/* Fails if a case has no measured picture, and therefore no result. */
static int check(const eval_run *r)
{
    for (size_t i = 0; i < r->cases; i++) {
        json_t *records = measured(r->list[i].records);
        const size_t n = json_array_size(records);
        json_decref(records);
        if (n == 0)
            return cli_fail(CLI_INPUT, "%s: none of its %zu pictures could be evaluated",
                            r->data_path, r->data.n);
    }
    return CLI_OK;
}

int eval_output_write(const eval_run *r)
{
    cli_output file = {.file = stdout};
    CLI_TRY(check(r));
    json_t *results = json_array();
    for (size_t i = 0; i < r->cases; i++)
        json_array_append_new(results, describe(r, &r->list[i]));
    int code = r->output ? cli_output_begin(&file, r->output) : CLI_OK;
    if (!code) {
        write_results(file.file, r, results);
        code = r->output ? cli_output_end(&file, NULL) : CLI_OK;
    }
    json_decref(results);
    return code;
}
