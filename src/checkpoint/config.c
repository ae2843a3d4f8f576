/* config.c: see config.h. */
#include "checkpoint/config.h"

#include <stdio.h>
#include <string.h>

#define PIXELS 65536
#define NAME_MOST 120
#define KEY_MOST 48 /* maximum characters of a list's name in a message */

static fovea_status parse(json_t **out, const char *file, const char *text, uint64_t size,
                          unsigned flags)
{
    fv_json_error error;
    json_t *json = fv_json_parse(text, (size_t)size, flags, &error);
    if (!json)
        return fv_fail(FOVEA_EFORMAT, "%s: %s", file, error.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return fv_fail(FOVEA_EFORMAT, "%s must contain a JSON object", file);
    }
    *out = json;
    return FOVEA_OK;
}

fovea_status fv_config_parse(json_t **out, const char *file, const char *text, uint64_t size)
{
    return parse(out, file, text, size, 0);
}

fovea_status fv_config_parse_unique(json_t **out, const char *file, const char *text, uint64_t size)
{
    return parse(out, file, text, size, FV_JSON_UNIQUE);
}

fovea_status fv_config_load(json_t **out, const fv_blob *file, uint64_t limit)
{
    if (file->size > limit)
        return fv_fail(FOVEA_EFORMAT, "%s has %llu bytes; at most %llu are accepted", file->path,
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
    int64_t n;
    if (!fv_json_whole(&n, value) || n < min || n > max) {
        char expected[64];
        snprintf(expected, sizeof expected, "an integer from %u to %u", min, max);
        return fv_config_fail(c, key, expected);
    }
    *out = (uint32_t)n;
    return FOVEA_OK;
}

static bool number_within(float *out, const json_t *value, double min, double max)
{
    double x;
    if (!fv_json_number(&x, value) || x < min || x > max)
        return false;
    *out = (float)x;
    return true;
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
    return number_within(out, value, min, max) ? FOVEA_OK
                                               : fail_number(c, key, "a number", min, max);
}

/* Fails with a message about one item of a list. */
static fovea_status fail_item(const fv_config *c, const char *key, uint32_t i, const char *what,
                              double min, double max)
{
    char item[KEY_MOST + 16];
    snprintf(item, sizeof item, "%.*s[%u]", KEY_MOST, key, i);
    return fail_number(c, item, what, min, max);
}

fovea_status fv_config_floats(float *out, uint32_t n, const fv_config *c, const char *key,
                              double min, double max)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    if (!json_is_array(value) || json_array_size(value) != n) {
        char what[32];
        snprintf(what, sizeof what, "a list of %u numbers", n);
        return fail_number(c, key, what, min, max);
    }
    for (uint32_t i = 0; i < n; i++)
        if (!number_within(&out[i], json_array_get(value, i), min, max))
            return fail_item(c, key, i, "a number", min, max);
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
    if (!json_is_array(value) || json_array_size(value) != n) {
        char what[48];
        snprintf(what, sizeof what, "a list of %u integers", n);
        return fail_number(c, key, what, min, max);
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t x;
        if (!fv_json_whole(&x, json_array_get(value, i)) || x < min || x > max)
            return fail_item(c, key, i, "an integer", min, max);
        out[i] = (uint32_t)x;
    }
    return FOVEA_OK;
}

fovea_status fv_config_bool(bool *out, const fv_config *c, const char *key)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    return fv_json_flag(out, value) ? FOVEA_OK : fv_config_fail(c, key, "true or false");
}

fovea_status fv_config_text(const char **out, const fv_config *c, const char *key)
{
    const json_t *value = fv_config_get(c, key);
    if (!value)
        return FOVEA_OK;
    if (!json_is_string(value))
        return fv_config_fail(c, key, "a string");
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

fovea_status fv_config_tower(fv_config *out, const fv_config *c)
{
    /* Where models keep the section if they have no "vision_config"; the first that exists counts.
     */
    static const struct {
        const char *section, *subsection, *path;
    } places[] = {
        {"image_config", NULL, "image_config"},
        {"vlm_config", "vision_config", "vlm_config.vision_config"},
        {"encoder", "vision_config", "encoder.vision_config"},
        {"encoder", NULL, "encoder"},
    };
    const size_t count = sizeof places / sizeof *places;
    FV_TRY(fv_config_section(out, c, "vision_config"));
    for (size_t i = 0; !out->object && i < count; i++) {
        json_t *tower = json_object_get(c->object, places[i].section);
        if (places[i].subsection)
            tower = json_object_get(tower, places[i].subsection);
        if (json_is_object(tower))
            *out = (fv_config){c->file, places[i].path, tower};
    }
    return FOVEA_OK;
}

/* Returns whether a text consists of letters, digits and the separators of model names. */
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
                       "%s: \"model_type\" or \"architecture\" is \"%.60s\", which is not a "
                       "model's name; use only letters, digits and the characters _-.:/+",
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
    int64_t wide, high;
    if (!fv_json_whole(&wide, w) || !fv_json_whole(&high, h) || wide < 1 || wide > PIXELS ||
        high < 1 || high > PIXELS)
        return fv_config_fail(c, key, "a size: pixels, [height, width], or an object with both");
    *width = (uint32_t)wide;
    *height = (uint32_t)high;
    *square = json_is_number(value);
    return FOVEA_OK;
}
