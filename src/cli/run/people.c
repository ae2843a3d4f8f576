/* people.c: see people.h.
 *
 * A file is a list of records as in COCO's results, or an object with "annotations" and optionally
 * "images" and "categories", as in COCO's annotations.
 *
 * The picture of a record is given by its "file_name", or by the name of its image in "images".
 * Without both, the record belongs to the picture whose name is the number "image_id", as in COCO.
 * If no picture has such a name, "image_id" is the picture's number in the run. */
#include "cli/run/people.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "json/json.h"

#define PERSON "person"
#define COCO_PERSON "1"

/* ---- reading ---- */

int people_parse_box(fovea_box *out, const char *text)
{
    int end = 0;
    if (sscanf(text, "%lf,%lf,%lf,%lf%n", &out->x, &out->y, &out->width, &out->height, &end) != 4 ||
        text[end] || !(out->width > 0 && out->height > 0) || !isfinite(out->x + out->width) ||
        !isfinite(out->y + out->height))
        return cli_fail(CLI_USAGE,
                        "--box %s: it must be X,Y,W,H in pixels: upper left corner and size", text);
    return CLI_OK;
}

/* Returns the list of records. */
static json_t *records(const people *p)
{
    return json_is_array(p->root) ? p->root : json_object_get(p->root, "annotations");
}

static int wrong(const people *p, size_t i, const char *key, const json_t *value,
                 const char *expected)
{
    char shown[FV_JSON_SHOWN];
    return cli_fail(CLI_INPUT, "--people %s: %s[%zu].%s is %s; it must be %s", p->path,
                    json_is_array(p->root) ? "" : "annotations", i, key, fv_json_show(shown, value),
                    expected);
}

static bool read_box(fovea_box *out, const json_t *bbox)
{
    double *const side[] = {&out->x, &out->y, &out->width, &out->height};
    if (json_array_size(bbox) != 4)
        return false;
    for (size_t k = 0; k < 4; k++)
        if (!fv_json_number(side[k], json_array_get(bbox, k)))
            return false;
    return out->width >= 0 && out->height >= 0;
}

static int check_record(const people *p, size_t i, const json_t *record)
{
    const json_t *score = json_object_get(record, "score");
    fovea_box box;
    double x;
    if (!read_box(&box, json_object_get(record, "bbox")))
        return wrong(p, i, "bbox", json_object_get(record, "bbox"), "[x, y, width, height]");
    return !score || json_is_null(score) || fv_json_number(&x, score)
               ? CLI_OK
               : wrong(p, i, "score", score, "a number");
}

int people_open(people *p)
{
    size_t i;
    json_t *record;
    fovea_box box;
    for (size_t k = 0; k < p->given.n; k++)
        CLI_TRY(people_parse_box(&box, p->given.text[k]));
    if (p->category && !p->path)
        return cli_fail(CLI_USAGE, "--person needs --people, which is not given");
    if (!p->path)
        return CLI_OK;
    CLI_TRY(cli_json_read(&p->root, p->path));
    if (!json_is_array(records(p)))
        return cli_fail(CLI_INPUT,
                        "--people %s must contain a list of boxes, as --boxes writes it, or an "
                        "object with \"annotations\"",
                        p->path);
    json_array_foreach(records(p), i, record)
        CLI_TRY(check_record(p, i, record));
    return CLI_OK;
}

/* ---- the picture of a record ---- */

/* Returns the object with this id in a list of the file, or NULL if there is none. */
static const json_t *listed(const people *p, const char *list, const json_t *id)
{
    char one[FV_JSON_ID], other[FV_JSON_ID];
    const char *wanted = id ? fv_json_id(one, id) : NULL;
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(p->root, list), i, item) {
        const char *own = fv_json_id(other, json_object_get(item, "id"));
        if (wanted && own && strcmp(own, wanted) == 0)
            return item;
    }
    return NULL;
}

/* Returns whether the names agree; a file "a/b.jpg" also has the name b.jpg. */
static bool same_picture(const char *file, const char *name)
{
    return strcmp(file, name) == 0 || strcmp(cli_file_name(file), cli_file_name(name)) == 0;
}

/* Returns whether the name up to its last dot is a number with the value `id`. Sets *numbered if
 * the name is any number. */
static bool is_numbered(const char *name, const char *id, bool *numbered)
{
    const char *stem = cli_file_name(name);
    const size_t digits = strspn(stem, "0123456789");
    *numbered = digits > 0 && (!stem[digits] || stem[digits] == '.');
    while (*stem == '0' && isdigit((unsigned char)stem[1]))
        stem++;
    return *numbered && strncmp(stem, id, strlen(id)) == 0 &&
           !isdigit((unsigned char)stem[strlen(id)]);
}

static bool is_of(const people *p, const json_t *record, const char *name, size_t picture)
{
    char buffer[FV_JSON_ID], number[32];
    const json_t *id = json_object_get(record, "image_id"), *image = listed(p, "images", id);
    const char *file = json_string_value(json_object_get(record, "file_name"));
    const char *text = id ? fv_json_id(buffer, id) : NULL;
    bool numbered = false;
    if (!file && image)
        file = json_string_value(json_object_get(image, "file_name"));
    if (file)
        return same_picture(file, name);
    if (!text)
        return true; /* a record without an image belongs to the only picture */
    if (is_numbered(name, text, &numbered) || numbered)
        return is_numbered(name, text, &numbered);
    snprintf(number, sizeof number, "%zu", picture);
    return strcmp(text, number) == 0;
}

/* Returns whether a record is about a person. A record without a category is. */
static bool is_person(const people *p, const json_t *record)
{
    char buffer[FV_JSON_ID];
    const json_t *id = json_object_get(record, "category_id");
    const json_t *category = listed(p, "categories", id);
    const char *name = json_string_value(json_object_get(record, "label"));
    const char *number = id ? fv_json_id(buffer, id) : NULL;
    if (!name && category)
        name = json_string_value(json_object_get(category, "name"));
    if (p->category && number && strcmp(number, p->category) == 0)
        return true;
    if (name && *name)
        return strcasecmp(name, p->category ? p->category : PERSON) == 0;
    return !number || (!p->category && strcmp(number, COCO_PERSON) == 0);
}

static void add(people *p, const people_box *box)
{
    p->box = cli_grow(p->box, p->n, sizeof *p->box);
    p->box[p->n++] = *box;
}

void people_in(people *p, const char *name, size_t picture)
{
    size_t i;
    json_t *record;
    p->n = 0;
    for (size_t k = 0; k < p->given.n; k++) {
        people_box one = {.score = NAN};
        people_parse_box(&one.box, p->given.text[k]);
        add(p, &one);
    }
    json_array_foreach(records(p), i, record) {
        people_box one = {.score = NAN};
        if (!is_person(p, record) || !is_of(p, record, name, picture))
            continue;
        const bool scored = fv_json_number(&one.score, json_object_get(record, "score"));
        const bool has_area = read_box(&one.box, json_object_get(record, "bbox")) &&
                              (one.box.width > 0 || one.box.height > 0);
        if (has_area && (!scored || one.score >= p->least))
            add(p, &one);
    }
}

void people_free(people *p)
{
    free(p->given.text);
    free(p->box);
    json_decref(p->root);
}
