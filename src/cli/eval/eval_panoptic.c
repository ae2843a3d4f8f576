/* eval_panoptic.c: measures panoptic segmentation: panoptic quality by COCO's rules. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/panoptic_metrics.h"
#include "cli/eval/eval.h"

enum { RECORD_NUMBERS = 5 }; /* category; right, wrong and missed segments; sum of the overlaps */

/* Lists the model's classes whose objects cannot be counted: segments of such a class are one. */
static void list_stuff(eval_run *r)
{
    r->stuff = cli_alloc(r->classes + 1, sizeof *r->stuff);
    for (uint32_t k = 0; k < r->classes; k++) {
        const uint32_t category = eval_coco_category(r, k);
        if (category != UINT32_MAX && !r->annotations.thing[category])
            r->stuff[r->n_stuff++] = k;
    }
}

/* Sets the folder of the pictures with the numbers of segments. */
static int find_folder(eval_run *r)
{
    const char *path = r->annotations_path;
    const size_t n = strlen(path) - (cli_ends_with(path, ".json") ? strlen(".json") : 0);
    if (r->panoptic_folder)
        return CLI_OK;
    r->own_folder = cli_text("%.*s", (int)n, path);
    r->panoptic_folder = r->own_folder;
    if (!cli_is_folder(r->panoptic_folder))
        return cli_fail(CLI_INPUT,
                        "%s: the pictures of its segments are not in the folder %s; use --panoptic "
                        "DIR",
                        path, r->panoptic_folder);
    return CLI_OK;
}

static int begin(eval_run *r)
{
    if (r->s.info.masks == 0)
        return cli_fail(CLI_UNSUPPORTED,
                        "%s finds no masks, which panoptic segmentation is made of; use EoMT or "
                        "Mask2Former",
                        r->path);
    static const char *const outputs[] = {"masks_queries_logits", "class_queries_logits",
                                          "pred_masks", "pred_boxes", "logits"};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        eval_want(r, outputs[i]);
    CLI_TRY(find_folder(r));
    CLI_TRY(eval_coco_begin(r));
    list_stuff(r);
    return CLI_OK;
}

/* ---- a picture ---- */

/* Returns 1 + the index of the segment in its list, or 0 if there is no segment of this number. */
static uint16_t index_of(const annotations_segments *of, uint32_t number)
{
    size_t low = 0, high = of->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (of->segment[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < of->n && of->segment[low].number == number ? (uint16_t)(of->segment[low].at + 1)
                                                            : 0;
}

/* Fills the map of true segments from the colours of their picture. */
static int read_colours(uint16_t *map, const annotations_segments *of, const cli_image *picture,
                        const char *path)
{
    const size_t pixels = (size_t)picture->width * picture->height;
    uint32_t last = 0;
    uint16_t index = 0;
    for (size_t p = 0; p < pixels; p++) {
        const uint8_t *rgb = picture->rgb + 3 * p;
        const uint32_t number = rgb[0] | (uint32_t)rgb[1] << 8 | (uint32_t)rgb[2] << 16;
        if (number != last) {
            last = number;
            index = index_of(of, number);
        }
        if (number != 0 && index == 0) {
            cli_tell("%s: the colour of pixel %zu is %u, which is not a segment of the annotations",
                     path, p, number);
            return EVAL_SKIP;
        }
        map[p] = index;
    }
    return CLI_OK;
}

static int read_truth(uint16_t *map, const annotations_segments *of, const char *path,
                      const dataset_picture *p)
{
    cli_image picture;
    if (cli_image_read(&picture, path))
        return EVAL_SKIP;
    int code = EVAL_SKIP;
    if (picture.width == p->width && picture.height == p->height)
        code = read_colours(map, of, &picture, path);
    else
        cli_tell("%s: it has %u x %u pixels, but the picture has %u x %u", path, picture.width,
                 picture.height, p->width, p->height);
    cli_image_free(&picture);
    return code;
}

static int find_segments(panoptic_segment *out, size_t *n, uint16_t *map, const eval_run *r,
                         const eval_runner *run)
{
    fovea_mask_options options = FOVEA_MASK_OPTIONS_INIT;
    options.threshold = (float)r->score;
    options.stuff = r->stuff;
    options.n_stuff = r->n_stuff;
    const size_t capacity = cli_most_masks(&r->s.info);
    fovea_mask *found = cli_alloc(capacity, sizeof *found);
    const int code = cli_check(fovea_masks(run->plan, run->outs, run->n_outputs, &options, found,
                                           capacity, n, map, (size_t)run->width * run->height));
    for (size_t i = 0; i < *n && !code; i++)
        out[i] = (panoptic_segment){eval_coco_category(r, found[i].label), false};
    free(found);
    return code;
}

static json_t *counts_json(const panoptic_counts *of, size_t categories)
{
    json_t *list = json_array();
    for (size_t c = 0; c < categories; c++)
        if (of[c].right + of[c].wrong + of[c].missed > 0)
            json_array_append_new(list, json_pack("[I, f, f, f, f]", (json_int_t)c, of[c].right,
                                                  of[c].wrong, of[c].missed, of[c].overlap));
    return list;
}

static int compare(json_t *record, const eval_run *r, const eval_runner *run,
                   const dataset_picture *p, const char *path)
{
    const annotations *a = &r->annotations;
    const size_t image = (size_t)json_integer_value(json_object_get(record, "image"));
    const annotations_segments *of = &a->segments[image];
    const size_t pixels = (size_t)p->width * p->height;
    uint16_t *map = cli_alloc(2 * pixels, sizeof *map);
    panoptic_segment *segment = cli_alloc(of->n + cli_most_masks(&r->s.info), sizeof *segment);
    panoptic_counts *counts = cli_alloc(a->categories, sizeof *counts);
    panoptic_map truth = {segment, of->n, map}, found = {segment + of->n, 0, map + pixels};
    for (size_t k = 0; k < of->n; k++)
        segment[of->segment[k].at] =
            (panoptic_segment){of->segment[k].category, of->segment[k].crowd};
    int code = read_truth(map, of, path, p);
    if (!code)
        code = find_segments(segment + of->n, &found.n, map + pixels, r, run);
    if (!code) {
        panoptic_count(counts, a->categories, &truth, &found, pixels);
        json_object_set_new(record, "segments", counts_json(counts, a->categories));
    }
    free(counts);
    free(segment);
    free(map);
    return code;
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    const annotations_segments *of = &r->annotations.segments[r->image_of[index]];
    if (!of->name) {
        char *name = eval_picture_name(r, index);
        cli_tell("%s: the annotations have no segments of this picture", name);
        free(name);
        return EVAL_SKIP;
    }
    if (of->n >= UINT16_MAX)
        return cli_fail(CLI_UNSUPPORTED, "%s has %zu segments; at most %d are possible", of->name,
                        of->n, UINT16_MAX - 1);
    json_object_set_new(record, "image", json_integer((json_int_t)r->image_of[index]));
    char *path = cli_text("%s/%s", r->panoptic_folder, of->name);
    const int code = compare(record, r, &c->run, p, path);
    free(path);
    return code;
}

/* ---- all of them ---- */

static void add(panoptic_counts *all, size_t categories, const json_t *segments)
{
    size_t i;
    json_t *one;
    json_array_foreach(segments, i, one) {
        double v[RECORD_NUMBERS];
        for (size_t k = 0; k < RECORD_NUMBERS; k++)
            v[k] = json_number_value(json_array_get(one, k));
        if (!(v[0] >= 0 && v[0] < (double)categories))
            continue;
        panoptic_counts *to = &all[(size_t)v[0]];
        to->right += v[1];
        to->wrong += v[2];
        to->missed += v[3];
        to->overlap += v[4];
    }
}

static void set_scores(json_t *out, const char *suffix, const panoptic_scores *s)
{
    const double value[] = {s->pq, s->sq, s->rq};
    static const char *const name[] = {"pq", "sq", "rq"};
    for (int i = 0; i < 3; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%s", name[i], suffix);
        json_object_set_new(out, key, json_real(value[i]));
    }
}

static json_t *category_json(const annotations *a, size_t c, const panoptic_counts *n)
{
    const panoptic_scores s = panoptic_score(n);
    json_t *out = json_pack("{s:s, s:o, s:b}", "id", a->category[c].id, "label",
                            cli_json_text(a->category[c].name ? a->category[c].name : ""), "thing",
                            a->thing[c]);
    set_scores(out, "", &s);
    json_object_set_new(out, "right", json_integer((json_int_t)n->right));
    json_object_set_new(out, "wrong", json_integer((json_int_t)n->wrong));
    json_object_set_new(out, "missed", json_integer((json_int_t)n->missed));
    return out;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    const annotations *a = &r->annotations;
    panoptic_counts *n = cli_alloc(a->categories, sizeof *n);
    json_t *out = json_object(), *classes = json_array(), *record;
    size_t i;
    json_array_foreach(records, i, record)
        add(n, a->categories, json_object_get(record, "segments"));
    const panoptic_scores all = panoptic_mean(n, a->categories, NULL, false),
                          things = panoptic_mean(n, a->categories, a->thing, true),
                          stuff = panoptic_mean(n, a->categories, a->thing, false);
    set_scores(out, "", &all);
    set_scores(out, "_things", &things);
    set_scores(out, "_stuff", &stuff);
    for (size_t c = 0; c < a->categories; c++)
        if (n[c].right + n[c].wrong + n[c].missed > 0)
            json_array_append_new(classes, category_json(a, c, &n[c]));
    json_object_set_new(out, "classes", classes);
    free(n);
    return out;
}

static const eval_column columns[] = {{"pq", "PQ"},           {"sq", "SQ"},
                                      {"rq", "RQ"},           {"pq_things", "PQ th"},
                                      {"sq_things", "SQ th"}, {"rq_things", "RQ th"},
                                      {"pq_stuff", "PQ st"},  {"sq_stuff", "SQ st"},
                                      {"rq_stuff", "RQ st"},  {NULL}};
const eval_task eval_panoptic = {"panoptic segmentation", columns, begin, measure, metrics};
