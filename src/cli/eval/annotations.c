/* annotations.c: see annotations.h. */
#include "cli/eval/annotations.h"

#include <stdlib.h>
#include <string.h>

#include "json/json.h"

int annotations_wrong(const annotations *a, const char *where, const json_t *value,
                      const char *expected)
{
    char shown[FV_JSON_SHOWN];
    return cli_fail(CLI_INPUT, "--annotations %s: %s is %s; it must be %s", a->path, where,
                    fv_json_show(shown, value), expected);
}

int annotations_wrong_member(const annotations *a, const char *list, size_t i, const char *key,
                             const json_t *value, const char *expected)
{
    char where[ANNOTATIONS_WHERE];
    snprintf(where, sizeof where, "%s[%zu].%s", list, i, key);
    return annotations_wrong(a, where, value, expected);
}

const json_t *annotations_member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* ---- images, categories ---- */

static const char an_id[] = "a number or a string";

static int by_id(const void *a, const void *b)
{
    const annotations_item *x = a, *y = b;
    const int order = fv_json_id_order(x->id, y->id);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Reads a file name, and replaces the backslashes with which Windows separates folders. */
static void read_file_name(annotations_item *out, const char *name)
{
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    out->name = name;
    if (!strchr(name, '\\'))
        return;
    out->name = out->own = cli_text("%s", name);
    for (char *c = out->own; (c = strchr(c, '\\'));)
        *c = '/';
}

/* Reads the name of a category, which may also be a number. */
static void read_category_name(annotations_item *out, const json_t *value)
{
    char buffer[FV_JSON_ID];
    if (json_is_string(value))
        out->name = json_string_value(value);
    else
        out->name = out->own = cli_text("%s", fv_json_id(buffer, value));
}

static int read_item(annotations_item *out, const annotations *a, const char *key, size_t i,
                     const json_t *from)
{
    const bool image = strcmp(key, "images") == 0;
    const json_t *name = annotations_member(from, image ? "file_name" : "name"),
                 *id = annotations_member(from, "id");
    if (image && !name) /* LVIS */
        name = annotations_member(from, "coco_url");
    char buffer[FV_JSON_ID];
    const char *text = fv_json_id(buffer, id);
    if (!text)
        return annotations_wrong_member(a, key, i, "id", id, an_id);
    out->id = cli_text("%s", text);
    out->at = i;
    if (image && (!json_is_string(name) || json_string_length(name) == 0))
        return annotations_wrong_member(a, key, i, "file_name", name, "a file name");
    if (name && !fv_json_id(buffer, name))
        return annotations_wrong_member(a, key, i, "name", name, "a string");
    if (image)
        read_file_name(out, json_string_value(name));
    else if (name)
        read_category_name(out, name);
    return CLI_OK;
}

static bool same_name(const annotations_item *x, const annotations_item *y)
{
    return x->name && y->name ? strcmp(x->name, y->name) == 0 : x->name == y->name;
}

/* Drops repeated items. Returns an error if different items have the same id. */
static int drop_doubles(annotations_item *list, size_t *n, const annotations *a, const char *key)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (kept > 0 && strcmp(list[kept - 1].id, list[i].id) == 0) {
            if (!same_name(&list[kept - 1], &list[i]))
                return cli_fail(
                    CLI_INPUT,
                    "--annotations %s: %s[%zu] and %s[%zu] have the same id, %s, but differ",
                    a->path, key, list[kept - 1].at, key, list[i].at, list[i].id);
            free(list[i].id);
            free(list[i].own);
            list[i] = (annotations_item){NULL};
            continue;
        }
        const annotations_item item = list[i];
        list[i] = (annotations_item){NULL};
        list[kept++] = item;
    }
    *n = kept;
    return CLI_OK;
}

/* Reads the items of list `key`, sorted by id. */
static int read_items(annotations_item **out, size_t *n, const annotations *a, const char *key)
{
    const json_t *list = json_object_get(a->root, key);
    if (json_array_size(list) == 0)
        return cli_fail(CLI_INPUT, "--annotations %s has no %s; the file must be in COCO's format",
                        a->path, key);
    *n = json_array_size(list);
    *out = cli_alloc(*n, sizeof **out);
    for (size_t i = 0; i < *n; i++)
        CLI_TRY(read_item(&(*out)[i], a, key, i, json_array_get(list, i)));
    qsort(*out, *n, sizeof **out, by_id);
    return drop_doubles(*out, n, a, key);
}

/* Returns the index of the item with this id, or n if there is none. */
static size_t place(const annotations_item *list, size_t n, const char *id)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (fv_json_id_order(list[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && strcmp(list[low].id, id) == 0 ? low : n;
}

/* ---- objects ---- */

static const char objects[] = "annotations";

int annotations_find(uint32_t *out, const annotations *a, const annotations_item *among, size_t n,
                     const char *list, size_t i, const json_t *from, const char *key)
{
    char buffer[FV_JSON_ID];
    const json_t *value = annotations_member(from, key);
    const char *id = fv_json_id(buffer, value);
    if (!id)
        return annotations_wrong_member(a, list, i, key, value, an_id);
    *out = (uint32_t)place(among, n, id);
    return CLI_OK;
}

int annotations_flag(bool *out, const annotations *a, const char *list, size_t i,
                     const json_t *from, const char *key)
{
    const json_t *value = annotations_member(from, key);
    if (value && !fv_json_flag(out, value))
        return annotations_wrong_member(a, list, i, key, value, "0 or 1");
    return CLI_OK;
}

static int read_box(box_shape *out, const annotations *a, size_t i, const json_t *box)
{
    double *const side[] = {&out->x, &out->y, &out->width, &out->height};
    if (json_array_size(box) != 4)
        return annotations_wrong_member(a, objects, i, "bbox", box,
                                        "[x, y, width, height] in pixels");
    for (size_t k = 0; k < 4; k++) {
        const json_t *value = json_array_get(box, k);
        char where[ANNOTATIONS_WHERE];
        snprintf(where, sizeof where, "%s[%zu].bbox[%zu]", objects, i, k);
        if (!fv_json_number(side[k], value))
            return annotations_wrong(a, where, value, "a number");
        if (k >= 2 && *side[k] < 0)
            return annotations_wrong(a, where, value, "a number that is not negative");
    }
    return CLI_OK;
}

/* Reads annotation i. Sets *listed to whether its image and category are listed; if they are not,
 * its other members are not checked. */
static int read_object(object_truth *out, bool *listed, const annotations *a, size_t i,
                       const json_t *from)
{
    const json_t *area = annotations_member(from, "area");
    *out = (object_truth){0};
    CLI_TRY(annotations_find(&out->image, a, a->image, a->images, objects, i, from, "image_id"));
    CLI_TRY(annotations_find(&out->category, a, a->category, a->categories, objects, i, from,
                             "category_id"));
    *listed = out->image < a->images && out->category < a->categories;
    if (!*listed)
        return CLI_OK;
    CLI_TRY(read_box(&out->box, a, i, annotations_member(from, "bbox")));
    out->area = out->box.width * out->box.height;
    if (area && !fv_json_number(&out->area, area))
        return annotations_wrong_member(a, objects, i, "area", area, "a number");
    return annotations_flag(&out->crowd, a, objects, i, from, "iscrowd");
}

/* Reports annotations without a listed image and category. They are not an error, because files
 * from which images or categories were removed often keep them. */
static int tell_strays(const annotations *a, size_t strays, size_t first)
{
    const json_t *from = json_array_get(json_object_get(a->root, objects), first);
    uint32_t image = 0;
    if (strays == 0)
        return CLI_OK;
    CLI_TRY(annotations_find(&image, a, a->image, a->images, objects, first, from, "image_id"));
    const bool of_image = image == a->images;
    const char *key = of_image ? "image_id" : "category_id";
    char buffer[FV_JSON_ID];
    const char *id = fv_json_id(buffer, annotations_member(from, key));
    if (a->n == 0)
        return cli_fail(CLI_INPUT,
                        "--annotations %s: none of its %zu annotations refers to a listed image "
                        "and category; %s of annotations[%zu] is %s, which no %s has",
                        a->path, strays, key, first, id, of_image ? "image" : "category");
    cli_tell("%s: %zu of its %zu annotations are left out, because their images or categories are "
             "not listed; the first is annotations[%zu], with %s %s",
             a->path, strays, strays + a->n, first, key, id);
    return CLI_OK;
}

static int read_objects(annotations *a)
{
    const json_t *list = json_object_get(a->root, objects);
    size_t strays = 0, first = 0;
    if (!json_is_array(list))
        return annotations_wrong(a, objects, list, "a list");
    a->object = cli_alloc(json_array_size(list) + 1, sizeof *a->object);
    a->at = cli_alloc(json_array_size(list) + 1, sizeof *a->at);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *from = json_array_get(list, i);
        bool listed;
        CLI_TRY(read_object(&a->object[a->n], &listed, a, i, from));
        if (!listed && strays++ == 0)
            first = i;
        if (!listed)
            continue;
        a->at[a->n++] = i;
        a->outlined += json_object_size(annotations_member(from, "segmentation")) > 0 ||
                       json_array_size(annotations_member(from, "segmentation")) > 0;
    }
    return tell_strays(a, strays, first);
}

int annotations_read(annotations *a, const char *path)
{
    *a = (annotations){.path = path};
    CLI_TRY(cli_json_read(&a->root, path));
    if (!json_is_object(a->root))
        return cli_fail(CLI_INPUT,
                        "--annotations %s is a list, like a file of results; it must be in COCO's "
                        "format, an object with images, categories and annotations",
                        path);
    CLI_TRY(read_items(&a->image, &a->images, a, "images"));
    CLI_TRY(read_items(&a->category, &a->categories, a, "categories"));
    return annotations_are_panoptic(a) ? annotations_read_segments(a) : read_objects(a);
}

static void free_items(annotations_item *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++) {
        free(list[i].id);
        free(list[i].own);
    }
    free(list);
}

void annotations_free(annotations *a)
{
    json_decref(a->root);
    free_items(a->image, a->images);
    free_items(a->category, a->categories);
    for (size_t i = 0; a->mask && i < a->n; i++)
        run_lengths_free(&a->mask[i]);
    free(a->mask);
    free(a->object);
    free(a->at);
    annotations_free_segments(a);
    memset(a, 0, sizeof *a);
}
