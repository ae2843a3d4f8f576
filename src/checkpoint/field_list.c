/* field_list.c: checks that a file has only fields that are allowed. */
#include "checkpoint/field_list.h"

#include <string.h>

/* A word of a list: the name of a field and, after "=", the value that it must have. */
struct field {
    const char *name, *rule;
    size_t length, rule_length; /* rule_length 0: any value */
};

static bool rules(const struct field *k, const char *rule)
{
    return k->rule_length == strlen(rule) && memcmp(k->rule, rule, k->rule_length) == 0;
}

static bool holds(const struct field *k, const json_t *value)
{
    const char *text = json_string_value(value);
    bool flag;
    if (k->rule_length == 0)
        return true;
    if (rules(k, "true") || rules(k, "false"))
        return fv_json_flag(&flag, value) && flag == rules(k, "true");
    if (rules(k, "{}"))
        return json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
               (json_is_object(value) && json_object_size(value) == 0);
    return text && rules(k, text);
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

static bool find(struct field *out, const char *list, const char *name)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        *out = (struct field){.name = at, .length = strcspn(at, " =")};
        at += out->length;
        if (*at == '=') {
            out->rule = ++at;
            out->rule_length = strcspn(at, " ");
            at += out->rule_length;
        }
        if (out->length == strlen(name) && memcmp(out->name, name, out->length) == 0)
            return true;
    }
    return false;
}

fovea_status fv_field_list_check(const fv_config *c, const char *list, const char *more,
                                 const json_t *ignore, const char *what)
{
    const char *name;
    json_t *value;
    const char *dot = *c->section ? "." : "";
    json_object_foreach(c->object, name, value) {
        struct field k;
        const bool known = (more && find(&k, more, name)) || find(&k, list, name);
        const bool unset = json_is_null(value) || (!known && fv_json_unbounded(value));
        if (unset || *name == '_' || fv_field_list_has(ignore, name) || (known && holds(&k, value)))
            continue;
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"%s%s%.60s\" %s; if that does not change %s, add "
                       "\"fovea\": {\"ignore\": [\"%.60s\"]} to config.json",
                       c->file, c->section, dot, name,
                       known ? "has a value that is not supported" : "is not known", what, name);
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
