/* json_csv.c: writes results as comma-separated values, one result per line. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* Adds an object's scalar values to `flat`, with keys that begin with `prefix`. */
static void flatten(json_t *flat, const char *prefix, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char *name = cli_text("%s%s", prefix, key);
        if (json_is_object(value)) {
            char *longer = cli_text("%s_", name);
            flatten(flat, longer, value);
            free(longer);
        } else if (!json_is_array(value)) {
            json_object_set(flat, name, value);
        }
        free(name);
    }
}

static void write_text(FILE *to, const char *text)
{
    const bool quoted = strpbrk(text, ",\"\n\r") != NULL;
    if (quoted)
        fputc('"', to);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            fputc('"', to);
        fputc(*c, to);
    }
    if (quoted)
        fputc('"', to);
}

static void write_value(FILE *to, const json_t *value)
{
    if (json_is_string(value)) {
        write_text(to, json_string_value(value));
    } else if (json_is_number(value) || json_is_boolean(value)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        fputs(text ? text : "", to);
        free(text);
    }
}

void cli_csv_write(FILE *to, const json_t *results)
{
    json_t *rows = json_array(), *names = json_object(), *r, *value;
    const char *key;
    size_t i;
    json_array_foreach(results, i, r) {
        json_t *flat = json_object();
        flatten(flat, "", r);
        json_object_update_missing(names, flat);
        json_array_append_new(rows, flat);
    }
    const char *gap = "";
    json_object_foreach(names, key, value) {
        fputs(gap, to);
        write_text(to, key);
        gap = ",";
    }
    fputc('\n', to);
    json_array_foreach(rows, i, r) {
        gap = "";
        json_object_foreach(names, key, value) {
            fputs(gap, to);
            write_value(to, json_object_get(r, key));
            gap = ",";
        }
        fputc('\n', to);
    }
    json_decref(rows);
    json_decref(names);
}
