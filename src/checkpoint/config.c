/* config.c: reading JSON with jansson, strictly. */
#include "checkpoint/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 32
#define PIXELS 65536
#define NAME_MOST 120

/* jansson recurses once per level, so that levels are counted before it sees the text. */
static bool too_deep(const char *text, uint64_t size)
{
    int depth = 0;
    bool quoted = false;
    for (uint64_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH)
                return true;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

fovea_status fv_config_parse(json_t **out, const char *file, const char *text, uint64_t size)
{
    json_error_t error;
    if (too_deep(text, size))
        return fv_fail(FOVEA_EFORMAT, "%s: JSON nested deeper than %d levels", file, DEPTH);
    json_t *json = json_loadb(size ? text : "", (size_t)size, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        return fv_fail(FOVEA_EFORMAT, "%s: line %d: not valid JSON: %s", file, error.line,
                       error.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return fv_fail(FOVEA_EFORMAT, "%s: a JSON object is expected", file);
    }
    *out = json;
    return FOVEA_OK;
}

fovea_status fv_config_load(json_t **out, const fv_blob *file, uint64_t limit)
{
    if (file->size > limit)
        return fv_fail(FOVEA_EFORMAT, "%s: %llu bytes; at most %llu are accepted", file->path,
                       (unsigned long long)file->size, (unsigned long long)limit);
    return fv_config_parse(out, file->path, file->data, file->size);
}

json_t *fv_config_get(const fv_config *c, const char *key)
{
    json_t *value = json_object_get(c->object, key);
    return json_is_null(value) ? NULL : value;
}

fovea_status fv_config_fail(const fv_config *c, const char *key, const char *expected)
{
    return fv_fail(FOVEA_EFORMAT, "%s: \"%s%s%s\" must be %s", c->file, c->section,
                   c->section[0] ? "." : "", key, expected);
}

fovea_status fv_config_u32(uint32_t *out, const fv_config *c, const char *key, uint32_t min,
                           uint32_t max)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max) {
        char expected[64];
        snprintf(expected, sizeof expected, "an integer from %u to %u", min, max);
        return fv_config_fail(c, key, expected);
    }
    *out = (uint32_t)n;
    return FOVEA_OK;
}

static bool number_within(const json_t *value, double min, double max)
{
    double x = json_number_value(value);
    return json_is_number(value) && x >= min && x <= max;
}

static fovea_status fail_number(const fv_config *c, const char *key, const char *what, double min,
                                double max)
{
    char expected[96];
    snprintf(expected, sizeof expected, "%s from %g to %g", what, min, max);
    return fv_config_fail(c, key, expected);
}

fovea_status fv_config_float(float *out, const fv_config *c, const char *key, double min,
                             double max)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    if (!number_within(value, min, max))
        return fail_number(c, key, "a number", min, max);
    *out = (float)json_number_value(value);
    return FOVEA_OK;
}

fovea_status fv_config_floats(float *out, uint32_t n, const fv_config *c, const char *key,
                              double min, double max)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    bool good = json_array_size(value) == n;
    for (uint32_t i = 0; good && i < n; i++)
        good = number_within(json_array_get(value, i), min, max);
    if (!good) {
        char what[32];
        snprintf(what, sizeof what, "a list of %u numbers", n);
        return fail_number(c, key, what, min, max);
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)json_number_value(json_array_get(value, i));
    return FOVEA_OK;
}

fovea_status fv_config_count(uint32_t *out, const fv_config *c, const char *key, uint32_t most)
{
    const json_t *value = fv_config_get(c, key);
    const size_t n = json_array_size(value);
    char expected[64];
    snprintf(expected, sizeof expected, "a list of 1 to %u numbers", most);
    if (!json_is_array(value) || n == 0 || n > most)
        return fv_config_fail(c, key, expected);
    *out = (uint32_t)n;
    return FOVEA_OK;
}

fovea_status fv_config_u32s(uint32_t *out, uint32_t n, const fv_config *c, const char *key,
                            uint32_t min, uint32_t max)
{
    const json_t *value = fv_config_get(c, key);
    char expected[96];
    snprintf(expected, sizeof expected, "a list of %u integers from %u to %u", n, min, max);
    if (!json_is_array(value) || json_array_size(value) != n)
        return fv_config_fail(c, key, expected);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        const json_int_t x = json_integer_value(item);
        if (!json_is_integer(item) || x < min || x > max)
            return fv_config_fail(c, key, expected);
        out[i] = (uint32_t)x;
    }
    return FOVEA_OK;
}

fovea_status fv_config_bool(bool *out, const fv_config *c, const char *key)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    if (!json_is_boolean(value))
        return fv_config_fail(c, key, "true or false");
    *out = json_is_true(value);
    return FOVEA_OK;
}

fovea_status fv_config_text(const char **out, const fv_config *c, const char *key)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    if (!json_is_string(value))
        return fv_config_fail(c, key, "a text");
    *out = json_string_value(value);
    return FOVEA_OK;
}

fovea_status fv_config_section(fv_config *out, const fv_config *c, const char *key)
{
    json_t *value = fv_config_get(c, key);
    if (value && !json_is_object(value))
        return fv_config_fail(c, key, "an object");
    *out = (fv_config){c->file, key, value};
    return FOVEA_OK;
}

/* Letters, digits and what stands between them in names of models. */
static bool is_name(const char *text)
{
    const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_-.:/+");
    return n > 0 && n <= NAME_MOST && !text[n];
}

fovea_status fv_config_type(const char **out, const fv_config *c)
{
    fv_config own = {0};
    *out = NULL;
    FV_TRY(fv_config_section(&own, c, "fovea"));
    FV_TRY(fv_config_text(out, &own, "model_type"));
    if (!*out)
        FV_TRY(fv_config_text(out, c, "model_type"));
    if (!*out)
        FV_TRY(fv_config_text(out, c, "architecture"));
    if (*out && !is_name(*out))
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"model_type\" or \"architecture\" is \"%.60s\", which is no name of a "
                       "model; letters, digits and _-.:/+ make one",
                       c->file, *out);
    return FOVEA_OK;
}

fovea_status fv_config_size(uint32_t *width, uint32_t *height, bool *square, const fv_config *c,
                            const char *key)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    const json_t *w = value, *h = value;
    if (json_is_array(value) && json_array_size(value) == 2) {
        h = json_array_get(value, 0);
        w = json_array_get(value, 1);
    } else if (json_is_object(value)) {
        h = json_object_get(value, "height");
        w = json_object_get(value, "width");
    }
    json_int_t wide = json_integer_value(w), high = json_integer_value(h);
    if (!json_is_integer(w) || !json_is_integer(h) || wide < 1 || wide > PIXELS || high < 1 ||
        high > PIXELS)
        return fv_config_fail(c, key, "a size: pixels, [height, width], or an object of both");
    *width = (uint32_t)wide;
    *height = (uint32_t)high;
    *square = json_is_integer(value);
    return FOVEA_OK;
}
