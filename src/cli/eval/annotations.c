/* annotations.c: see annotations.h. */
#include "cli/eval/annotations.h"

#include <stdlib.h>
#include <string.h>

static json_int_t id_of(const json_t *object)
{
    return json_integer_value(json_object_get(object, "id"));
}

static int by_id(const void *a, const void *b)
{
    const json_int_t x = id_of(*(json_t *const *)a), y = id_of(*(json_t *const *)b);
    return (x > y) - (x < y);
}

/* The objects of list `key` by their ids. */
static json_t **sorted(size_t *n, const json_t *root, const char *key)
{
    const json_t *list = json_object_get(root, key);
    *n = json_array_size(list);
    json_t **out = cli_alloc(*n + 1, sizeof(json_t *));
    for (size_t i = 0; i < *n; i++)
        out[i] = json_array_get(list, i);
    qsort(out, *n, sizeof *out, by_id);
    return out;
}

/* The place of the object with id `key` of an annotation; n: there is none. */
static size_t place(json_t *const *list, size_t n, const json_t *annotation, const char *key)
{
    const json_int_t id = json_integer_value(json_object_get(annotation, key));
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (id_of(list[middle]) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && id_of(list[low]) == id ? low : n;
}

/* False: they are not `n` numbers. */
static bool read_numbers(double *out, size_t n, const json_t *list)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number))
            return false;
        out[i] = json_number_value(number);
    }
    return json_array_size(list) == n;
}

/* False: it is no object of a picture. */
static bool read_object(box_truth *out, const annotations *a, const json_t *from)
{
    const json_t *area = json_object_get(from, "area");
    const size_t image = place(a->image, a->images, from, "image_id");
    const size_t category = place(a->category, a->categories, from, "category_id");
    double v[4] = {0};
    const bool is_box = read_numbers(v, 4, json_object_get(from, "bbox"));
    *out = (box_truth){.image = (uint32_t)image,
                       .category = (uint32_t)category,
                       .box = {v[0], v[1], v[2], v[3]},
                       .area = json_is_number(area) ? json_number_value(area) : v[2] * v[3],
                       .crowd = json_integer_value(json_object_get(from, "iscrowd")) != 0};
    return is_box && v[2] >= 0 && v[3] >= 0 && image < a->images && category < a->categories;
}

static int read_objects(annotations *a, const char *path)
{
    const json_t *list = json_object_get(a->root, "annotations");
    a->n = json_array_size(list);
    a->object = cli_alloc(a->n + 1, sizeof *a->object);
    for (size_t i = 0; i < a->n; i++)
        if (!read_object(&a->object[i], a, json_array_get(list, i)))
            return cli_fail(CLI_INPUT,
                            "--annotations %s: annotation %zu is no box of an image and a category "
                            "that are there",
                            path, i);
    return CLI_OK;
}

static int read_names(annotations *a, const char *path)
{
    a->places = json_object();
    for (size_t i = 0; i < a->images; i++) {
        const char *name = annotations_picture(a, i);
        if (!name)
            return cli_fail(CLI_INPUT, "--annotations %s: image %lld has no file_name", path,
                            (long long)id_of(a->image[i]));
        if (json_object_get(a->places, name))
            return cli_fail(CLI_INPUT, "--annotations %s: two images are called %s", path, name);
        json_object_set_new(a->places, name, json_integer((json_int_t)i));
    }
    return CLI_OK;
}

int annotations_read(annotations *a, const char *path)
{
    static const char *const lists[] = {"images", "categories", "annotations"};
    json_error_t error;
    *a = (annotations){.root = json_load_file(path, 0, &error)};
    if (!a->root && error.line < 0)
        return cli_fail(CLI_INPUT, "--annotations: %s", error.text);
    if (!a->root)
        return cli_fail(CLI_INPUT, "--annotations %s: line %d: %s", path, error.line, error.text);
    for (int i = 0; i < 3; i++)
        if (json_array_size(json_object_get(a->root, lists[i])) == 0)
            return cli_fail(CLI_INPUT, "--annotations %s: has no %s; wanted is COCO's format", path,
                            lists[i]);
    a->image = sorted(&a->images, a->root, "images");
    a->category = sorted(&a->categories, a->root, "categories");
    CLI_TRY(read_names(a, path));
    return read_objects(a, path);
}

void annotations_free(annotations *a)
{
    json_decref(a->root);
    json_decref(a->places);
    free(a->image);
    free(a->category);
    free(a->object);
    memset(a, 0, sizeof *a);
}

size_t annotations_find(const annotations *a, const char *path)
{
    const json_t *at = json_object_get(a->places, cli_file_name(path));
    return at ? (size_t)json_integer_value(at) : a->images;
}

const char *annotations_picture(const annotations *a, size_t image)
{
    const char *name = json_string_value(json_object_get(a->image[image], "file_name"));
    return name ? cli_file_name(name) : NULL;
}

const char *annotations_category(const annotations *a, size_t category)
{
    return json_string_value(json_object_get(a->category[category], "name"));
}

json_int_t annotations_id(const annotations *a, size_t category)
{
    return id_of(a->category[category]);
}
