/* annotations_masks.c: reads the masks of objects: polygons, or run lengths. */
#include <math.h>
#include <stdlib.h>

#include "cli/eval/annotations.h"
#include "json/json.h"

static const char objects[] = "annotations", key[] = "segmentation";

enum { FEWEST_CORNERS = 3 };

/* Reads the width or height of an object's picture, which polygons are drawn in. */
static int read_side(uint32_t *out, const annotations *a, uint32_t image, const char *name)
{
    const size_t at = a->image[image].at;
    const json_t *value =
        annotations_member(json_array_get(json_object_get(a->root, "images"), at), name);
    int64_t side;
    if (!fv_json_whole(&side, value) || side < 1 || side > RUN_LENGTHS_SIDE)
        return annotations_wrong_member(a, "images", at, name, value,
                                        "the picture's side in pixels, because masks are given");
    *out = (uint32_t)side;
    return CLI_OK;
}

static int read_polygon(run_lengths *to, const annotations *a, size_t i, size_t k,
                        const json_t *from)
{
    const size_t n = json_array_size(from);
    char where[ANNOTATIONS_WHERE];
    snprintf(where, sizeof where, "%s[%zu].%s[%zu]", objects, i, key, k);
    if (n < 2 * FEWEST_CORNERS || n % 2)
        return annotations_wrong(a, where, from, "a polygon [x, y, x, y, x, y, ...] in pixels");
    double *xy = cli_alloc(n, sizeof *xy);
    int code = CLI_OK;
    for (size_t j = 0; j < n && !code; j++)
        if (!fv_json_number(&xy[j], json_array_get(from, j)) || fabs(xy[j]) > RUN_LENGTHS_FAR) {
            snprintf(where, sizeof where, "%s[%zu].%s[%zu][%zu]", objects, i, key, k, j);
            code = annotations_wrong(a, where, json_array_get(from, j), "a coordinate in pixels");
        }
    if (!code)
        run_lengths_add_polygon(to, xy, n / 2);
    free(xy);
    return code;
}

static int read_polygons(run_lengths *out, const annotations *a, uint32_t image, size_t i,
                         const json_t *from)
{
    uint32_t width, height;
    CLI_TRY(read_side(&width, a, image, "width"));
    CLI_TRY(read_side(&height, a, image, "height"));
    *out = run_lengths_empty(width, height);
    for (size_t k = 0; k < json_array_size(from); k++)
        CLI_TRY(read_polygon(out, a, i, k, json_array_get(from, k)));
    return CLI_OK;
}

static int read_runs(run_lengths *out, const annotations *a, size_t i, const json_t *from)
{
    const json_t *size = json_object_get(from, "size");
    int64_t side[2];
    for (size_t k = 0; k < 2; k++)
        if (json_array_size(size) != 2 || !fv_json_whole(&side[k], json_array_get(size, k)) ||
            side[k] < 1 || side[k] > RUN_LENGTHS_SIDE)
            return annotations_wrong_member(a, objects, i, "segmentation.size", size,
                                            "[height, width] in pixels");
    const json_t *counts = json_object_get(from, "counts");
    if (!run_lengths_read(out, counts, (uint32_t)side[1], (uint32_t)side[0]))
        return annotations_wrong_member(a, objects, i, "segmentation.counts", counts,
                                        "run lengths whose sum is the number of pixels");
    return CLI_OK;
}

int annotations_read_masks(annotations *a)
{
    const json_t *list = json_object_get(a->root, objects);
    a->mask = cli_alloc(a->n + 1, sizeof *a->mask);
    for (size_t k = 0; k < a->n; k++) {
        const size_t i = a->at[k];
        const json_t *from = annotations_member(json_array_get(list, i), key);
        if (json_is_object(from))
            CLI_TRY(read_runs(&a->mask[k], a, i, from));
        else if (json_array_size(from) > 0)
            CLI_TRY(read_polygons(&a->mask[k], a, a->object[k].image, i, from));
        else
            return annotations_wrong_member(a, objects, i, key, from,
                                            "a list of polygons, or run lengths");
    }
    return CLI_OK;
}
