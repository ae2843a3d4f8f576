/* field_list.c: fields that a file may have. */
#include "checkpoint/field_list.h"

#include <string.h>

static bool holds(const fv_field *k, const json_t *value)
{
    const char *text = json_string_value(value);
    bool flag;
    switch (k->rule) {
    case FV_FIELD_ANY:
        return true;
    case FV_FIELD_TEXT:
        return text && strcmp(text, k->text) == 0;
    case FV_FIELD_TRUE:
        return fv_json_flag(&flag, value) && flag;
    case FV_FIELD_FALSE:
        return fv_json_flag(&flag, value) && !flag;
    case FV_FIELD_EMPTY:
        break;
    }
    return json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

bool fv_field_list_has(const json_t *ignore, const char *name)
{
    size_t i;
    const json_t *item;
    json_array_foreach(ignore, i, item) {
        const char *text = json_string_value(item);
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

static const fv_field *find(const fv_field *list, const char *name)
{
    while (*list->name && strcmp(list->name, name) != 0)
        list++;
    return *list->name ? list : NULL;
}

fovea_status fv_field_list_check(const fv_config *c, const fv_field *list, const fv_field *more,
                                 const json_t *ignore, const char *what)
{
    const char *name;
    json_t *value;
    const char *dot = *c->section ? "." : "";
    json_object_foreach(c->object, name, value) {
        const fv_field *k = find(list, name);
        if (!k && more)
            k = find(more, name);
        const bool unset = json_is_null(value) || (!k && fv_json_unbounded(value));
        if (unset || *name == '_' || fv_field_list_has(ignore, name) || (k && holds(k, value)))
            continue;
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"%s%s%.60s\" %s; if that does not change %s, add "
                       "\"fovea\": {\"ignore\": [\"%.60s\"]} to config.json",
                       c->file, c->section, dot, name,
                       k ? "has a value that is not supported" : "is not known", what, name);
    }
    return FOVEA_OK;
}

fovea_status fv_field_list_ignore(const json_t **out, const fv_config *own)
{
    *out = own->object ? fv_config_get(own, "ignore") : NULL;
    return !*out || json_is_array(*out)
               ? FOVEA_OK
               : fv_config_fail(own, "ignore", "a list of names of fields");
}
