/* fuzz_annotations.c: reads arbitrary bytes as a COCO file with objects, masks or segments, and
 * matches its names with picture files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval/annotations.h"
#include "cli/eval/file_match.h"
#include "tests/fuzz/fuzz.h"

/* ---- the target ---- */

static const char *path(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/annotations", fuzz_folder());
    return text;
}

static void check_items(const annotations_item *list, size_t n, bool named)
{
    for (size_t i = 0; i < n; i++) {
        fuzz_check(list[i].id != NULL, "an item without an id");
        fuzz_check(list[i].name != NULL || !named, "an image without a name");
    }
}

static void check_objects(const annotations *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const object_truth *b = &a->object[i];
        fuzz_check(b->image < a->images && b->category < a->categories, "an object of nothing");
        fuzz_check(isfinite(b->box.x) && isfinite(b->box.y) && b->box.width >= 0 &&
                       b->box.height >= 0 && !isnan(b->area),
                   "a box that is none");
    }
}

/* Masks cover their pictures exactly. */
static void check_masks(annotations *a)
{
    if (annotations_read_masks(a) != CLI_OK)
        return;
    for (size_t i = 0; i < a->n; i++) {
        const run_lengths *m = &a->mask[i];
        uint64_t sum = 0;
        for (size_t k = 0; k < m->n; k++)
            sum += m->run[k];
        fuzz_check(sum == (uint64_t)m->width * m->height, "runs that are no mask");
        fuzz_check(run_lengths_shared(m, m) == run_lengths_area(m), "a mask unlike itself");
    }
}

static void check_segments(const annotations *a)
{
    for (size_t i = 0; i < a->images; i++)
        for (size_t k = 0; k < a->segments[i].n; k++) {
            const annotations_segment *s = &a->segments[i].segment[k];
            fuzz_check(s->category < a->categories, "a segment of nothing");
            fuzz_check(s->number > 0 && (k == 0 || s->number > s[-1].number), "segments unordered");
        }
}

/* Every matched name ends like its file, and no file is matched twice. */
static void match(const annotations *a)
{
    char *files[] = {"d/1.png", "d/cam0/1.png", "d/cam1/1.png", "d/cam1/2.png", "d/a/b/3.png"};
    enum { FILES = sizeof files / sizeof *files };
    const char **name = calloc(a->images, sizeof *name);
    size_t *file_of = calloc(a->images, sizeof *file_of);
    fuzz_check(name && file_of, "memory");
    for (size_t i = 0; i < a->images; i++)
        name[i] = a->image[i].name;
    file_match m = {.folder = "d",
                    .file = files,
                    .files = FILES,
                    .name = name,
                    .names = a->images,
                    .file_of = file_of};
    if (file_match_find(&m)) {
        size_t taken[FILES] = {0};
        for (size_t i = 0; i < a->images; i++) {
            fuzz_check(file_of[i] <= FILES, "a file that is not there");
            if (file_of[i] == FILES)
                continue;
            fuzz_check(taken[file_of[i]]++ == 0, "a file of two names");
            fuzz_check(strcmp(cli_file_name(name[i]), cli_file_name(files[file_of[i]])) == 0,
                       "another name");
        }
    }
    free(name);
    free(file_of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    annotations a;
    fuzz_write("annotations", data, size, 0);
    if (annotations_read(&a, path()) == CLI_OK) {
        check_items(a.image, a.images, true);
        check_items(a.category, a.categories, false);
        check_objects(&a);
        if (a.segments)
            check_segments(&a);
        else
            check_masks(&a);
        match(&a);
        fuzz_taken++;
    }
    annotations_free(&a);
    return 0;
}

/* ---- seeds ---- */

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const char *const seeds[] = {
        "{\"images\": [{\"id\": 139, \"file_name\": \"cam0/1.png\"}, {\"id\": 7.0, \"file_name\": "
        "\"1.png\"}], \"categories\": [{\"id\": 1, \"name\": \"dog\"}, {\"id\": 3, \"name\": 5}], "
        "\"annotations\": [{\"image_id\": 7, \"category_id\": \"3\", \"bbox\": [1, 2.5, 3e1, 4], "
        "\"area\": 9.5, \"iscrowd\": true}, {\"image_id\": 8, \"category_id\": 1, \"bbox\": "
        "null}]}",
        "{\"info\": NaN, \"info\": [Infinity, -Infinity, 1e999], \"images\": [{\"id\": \"a_1\", "
        "\"file_name\": \"set\\\\cam1\\\\2.png\"}, {\"id\": 9223372036854775947, \"file_name\": "
        "\"./b/3.png\"}], \"categories\": [{\"id\": \"001\"}], \"annotations\": [{\"image_id\": "
        "9223372036854775947, \"category_id\": 1.0, \"bbox\": [0, 0, 0, 0], \"iscrowd\": 0}]}",
        "{\"images\": [{\"id\": 1, \"file_name\": \"1.png\", \"width\": 9, \"height\": 7}], "
        "\"categories\": [{\"id\": 1}], \"annotations\": [{\"image_id\": 1, \"category_id\": 1, "
        "\"bbox\": [1, 1, 5, 5], \"segmentation\": [[-4, -3, 30, 2.2, 5, 40], [1, 1, 3, 1, 3, "
        "3]]}, "
        "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1], \"segmentation\": "
        "{\"size\": [7, 9], \"counts\": \"0o1\"}}, {\"image_id\": 1, \"category_id\": 1, "
        "\"bbox\": [0, 0, 1, 1], \"segmentation\": {\"size\": [7, 9], \"counts\": [3, 60]}}]}",
        "{\"images\": [{\"id\": 1, \"file_name\": \"1.png\"}], \"categories\": [{\"id\": 1, "
        "\"isthing\": 0}], \"annotations\": [{\"image_id\": 1, \"file_name\": \"2.png\", "
        "\"segments_info\": [{\"id\": 9, \"category_id\": 1}, {\"id\": 3, \"category_id\": 1, "
        "\"iscrowd\": 1}]}]}",
        ("{\"images\": [{\"id\": 1, \"file_name\": \"\\ud83d\\u0000\"}], "
         "\"categories\": [{\"id\": 1, \"name\": \"\"}], \"annotations\": []}"),
    };
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    return (size_t)snprintf((char *)out, capacity, "%s", seeds[index]);
}
