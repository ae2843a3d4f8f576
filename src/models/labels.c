/* labels.c: see labels.h. */
#include "models/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "json/json.h"

#define LABELS (1u << 20)

/* Copies a name. A string is copied as it is; a number or other JSON value becomes its JSON
 * text. */
static fovea_status keep(char **out, const json_t *value)
{
    char buffer[FV_JSON_SHOWN];
    const char *shown = json_is_null(value)     ? ""
                        : json_is_string(value) ? json_string_value(value)
                                                : fv_json_show(buffer, value);
    char *whole = NULL;
    if (json_is_array(value) || (json_is_object(value) && shown == strstr(shown, "an object")))
        shown = whole = json_dumps(value, JSON_COMPACT);
    char *text;
    const fovea_status status = fv_mem_text(&text, shown ? shown : "", FV_MEM_MODEL);
    free(whole);
    FV_TRY(status);
    fv_mem_free(*out); /* freed only now, because the list of texts would end at this NULL */
    *out = text;
    return FOVEA_OK;
}

/* Reads a key of "id2label" as a number. */
static bool number_of(long long *out, const char *key)
{
    char *end;
    errno = 0;
    *out = strtoll(key, &end, 10);
    return end != key && *end == 0 && errno == 0;
}

static fovea_status read_by_id(char **label, uint32_t n, const fv_config *c, json_t *by_id)
{
    const char *key;
    json_t *value;
    if (!json_is_object(by_id))
        return fv_config_fail(c, "id2label", "an object that maps class numbers to names");
    json_object_foreach(by_id, key, value) {
        long long class;
        if (!number_of(&class, key))
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"id2label\" has the key \"%.40s\"; keys must be class numbers",
                           c->file, key);
        if (class >= 0 && class < n)
            FV_TRY(keep(&label[class], value));
    }
    return FOVEA_OK;
}

fovea_status fv_labels_read(char ***out, const fv_config *c, uint32_t n)
{
    json_t *by_id = fv_config_get(c, "id2label"), *list = fv_config_get(c, "label_names");
    fv_config timm;
    char **label;
    FV_TRY(fv_config_section(&timm, c, "pretrained_cfg"));
    if (!list && timm.object)
        list = fv_config_get(&timm, "label_names");
    if (json_is_array(by_id)) {
        list = by_id;
        by_id = NULL;
    }
    if (n == 0 || n > LABELS || (!by_id && json_array_size(list) == 0))
        return FOVEA_OK;
    FV_TRY(FV_MEM_ARRAY(out, n + 1ull, FV_MEM_MODEL, "labels"));
    label = *out;
    for (uint32_t i = 0; i < n; i++)
        FV_TRY(fv_mem_text(&label[i], "", FV_MEM_MODEL));
    if (by_id)
        return read_by_id(label, n, c, by_id);
    for (uint32_t i = 0; i < n && i < json_array_size(list); i++)
        FV_TRY(keep(&label[i], json_array_get(list, i)));
    return FOVEA_OK;
}

fovea_status fv_scores_read(fovea_scores *out, const fv_config *c, uint32_t outputs)
{
    static const char *const types[] = {"single_label_classification", "regression",
                                        "multi_label_classification"};
    const char *type = types[0];
    FV_TRY(fv_config_text(&type, c, "problem_type"));
    const int known = fv_index_of(type, types, sizeof types / sizeof *types);
    if (known < 0)
        return fv_config_fail(c, "problem_type",
                              "single_label_classification, multi_label_classification or "
                              "regression");
    *out = known == 1                   ? FOVEA_SCORES_VALUES
           : known == 2 || outputs == 1 ? FOVEA_SCORES_SIGMOID
                                        : FOVEA_SCORES_SOFTMAX;
    return FOVEA_OK;
}
