/* annotations_panoptic.c: reads the segments of pictures from a file in COCO's panoptic format. */
#include <stdlib.h>

#include "cli/eval/annotations.h"
#include "json/json.h"

static const char list[] = "annotations", key[] = "segments_info";

enum { LARGEST_NUMBER = 0xffffff }; /* a colour: red + 256 green + 65536 blue */

bool annotations_are_panoptic(const annotations *a)
{
    return json_object_get(json_array_get(json_object_get(a->root, list), 0), key) != NULL;
}

static int read_segment(annotations_segment *out, const annotations *a, size_t i, size_t k,
                        const json_t *from)
{
    char where[ANNOTATIONS_WHERE];
    int64_t number;
    snprintf(where, sizeof where, "%s[%zu].%s", list, i, key);
    if (!fv_json_whole(&number, json_object_get(from, "id")) || number < 1 ||
        number > LARGEST_NUMBER)
        return annotations_wrong_member(a, where, k, "id", json_object_get(from, "id"),
                                        "a colour as red + 256 green + 65536 blue, and not 0");
    out->number = (uint32_t)number;
    out->at = k;
    CLI_TRY(annotations_find(&out->category, a, a->category, a->categories, where, k, from,
                             "category_id"));
    if (out->category == a->categories)
        return annotations_wrong_member(a, where, k, "category_id",
                                        json_object_get(from, "category_id"),
                                        "the id of a listed category");
    return annotations_flag(&out->crowd, a, where, k, from, "iscrowd");
}

static int by_number(const void *a, const void *b)
{
    const annotations_segment *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int read_picture(annotations *a, size_t i, const json_t *from)
{
    const json_t *segments = json_object_get(from, key), *name = json_object_get(from, "file_name");
    uint32_t image;
    CLI_TRY(annotations_find(&image, a, a->image, a->images, list, i, from, "image_id"));
    if (image == a->images)
        return CLI_OK; /* as in a file from which images were removed */
    if (!json_is_string(name) || json_string_length(name) == 0)
        return annotations_wrong_member(a, list, i, "file_name", name, "a file name");
    if (!json_is_array(segments))
        return annotations_wrong_member(a, list, i, key, segments, "a list");
    annotations_segments *to = &a->segments[image];
    if (to->name)
        return cli_fail(CLI_INPUT, "--annotations %s: image %s has two lists of segments", a->path,
                        a->image[image].id);
    to->name = json_string_value(name);
    to->segment = cli_alloc(json_array_size(segments) + 1, sizeof *to->segment);
    for (; to->n < json_array_size(segments); to->n++)
        CLI_TRY(read_segment(&to->segment[to->n], a, i, to->n, json_array_get(segments, to->n)));
    qsort(to->segment, to->n, sizeof *to->segment, by_number);
    for (size_t k = 1; k < to->n; k++)
        if (to->segment[k].number == to->segment[k - 1].number)
            return cli_fail(CLI_INPUT, "--annotations %s: %s[%zu] has two segments with the id %u",
                            a->path, list, i, to->segment[k].number);
    return CLI_OK;
}

int annotations_read_segments(annotations *a)
{
    const json_t *categories = json_object_get(a->root, "categories"), *from;
    size_t i;
    a->thing = cli_alloc(a->categories, sizeof *a->thing);
    for (i = 0; i < a->categories; i++) {
        const size_t at = a->category[i].at;
        a->thing[i] = true;
        CLI_TRY(annotations_flag(&a->thing[i], a, "categories", at, json_array_get(categories, at),
                                 "isthing"));
    }
    a->segments = cli_alloc(a->images, sizeof *a->segments);
    json_array_foreach(json_object_get(a->root, list), i, from)
        CLI_TRY(read_picture(a, i, from));
    return CLI_OK;
}

void annotations_free_segments(annotations *a)
{
    for (size_t i = 0; a->segments && i < a->images; i++)
        free(a->segments[i].segment);
    free(a->segments);
    free(a->thing);
}
