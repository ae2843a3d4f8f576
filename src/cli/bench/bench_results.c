/* bench_results.c: reads results of benchmarks from a file, and interprets their fields. */
#include "cli/bench/bench_results.h"

#include <errno.h>
#include <math.h>
#include <string.h>

const char *bench_word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double bench_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

double bench_inner(const json_t *object, const char *member, const char *key)
{
    return bench_number(json_object_get(object, member), key);
}

bool bench_has_schema(const json_t *result, const char *schema)
{
    return strcmp(bench_word(result, "schema"), schema) == 0;
}

bool bench_is_model(const json_t *result)
{
    return strcmp(bench_word(json_object_get(result, "params"), "what"), "model") == 0;
}

cli_word bench_ms(double ms)
{
    const int digits = ms > 0 && ms < 0.1 ? 2 - (int)floor(log10(ms)) : 3;
    cli_word out;
    snprintf(out.text, sizeof out.text, "%.*f", digits, ms);
    return out;
}

double bench_promised(const json_t *result)
{
    return bench_inner(result, "peak_bytes", "promised") -
           (bench_is_model(result) ? bench_inner(result, "peak_bytes", "weights") : 0);
}

/* Returns where a case ran: the number of threads on the CPU, else the id of the device. */
cli_word bench_where(const json_t *result)
{
    const json_t *params = json_object_get(result, "params");
    const int threads = (int)bench_number(params, "threads");
    cli_word out;
    if (threads)
        snprintf(out.text, sizeof out.text, "%d thread%s", threads, threads == 1 ? "" : "s");
    else
        snprintf(out.text, sizeof out.text, "%s", bench_word(params, "device"));
    return out;
}

/* ---- files ---- */

static bool known(const json_t *r)
{
    return bench_has_schema(r, BENCH_SCHEMA) && bench_number(r, "p50_ms") > 0;
}

/* Appends the elements of an array, or one object, from the file. Returns false for any other
 * value. */
static bool append_results(json_t *list, json_t *value)
{
    size_t i;
    json_t *r, *all = json_is_array(value) ? value : json_pack("[o]", value);
    bool good = true;
    json_array_foreach(all, i, r) {
        good = good && known(r);
        json_array_append(list, r);
    }
    json_decref(all);
    return good;
}

int bench_results_read(json_t **out, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    json_t *list = json_array(), *value;
    json_error_t error;
    bool good = true;
    while (good && (value = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error)))
        good = append_results(list, value);
    good = good && feof(f) && json_array_size(list) > 0;
    fclose(f);
    if (!good) {
        json_decref(list);
        return cli_fail(CLI_INPUT, "%s must contain results of fovea bench -o json or jsonl", path);
    }
    *out = list;
    return CLI_OK;
}
