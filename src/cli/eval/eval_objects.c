/* eval_objects.c: measures detection and instance segmentation: average precision and recall of
 * boxes and of masks by COCO's rules. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"

enum { BOX_NUMBERS = 6 }; /* category, x, y, width, height, score */

/* Requests the outputs of boxes if the model is a detector, and those of masks if it finds masks
 * and the annotations have them. */
static int begin(eval_run *r)
{
    static const char *const of_masks[] = {"masks_queries_logits", "class_queries_logits",
                                           "pred_masks"};
    const annotations *a = &r->annotations;
    const bool boxes = r->s.info.boxes > 0, masks = r->s.info.masks > 0;
    const bool outlined = a->n > 0 && a->outlined == a->n;
    const char *name;
    if (!boxes && !masks)
        return cli_fail(CLI_UNSUPPORTED,
                        "%s finds neither boxes nor masks; --against MODEL2 compares features",
                        r->path);
    if (!boxes && !outlined)
        return cli_fail(CLI_INPUT,
                        "--annotations %s: %zu of %zu objects have no segmentation, but %s finds "
                        "masks and no boxes",
                        a->path, a->n - a->outlined, a->n, r->path);
    if (masks && a->outlined > 0 && !outlined)
        cli_tell("%s: %zu of %zu objects have no segmentation; only boxes are evaluated", a->path,
                 a->n - a->outlined, a->n);
    r->task = !boxes ? &eval_masks : masks && outlined ? &eval_instances : &eval_objects;
    for (size_t i = 0; boxes && (name = fovea_model_output(r->s.model, i)); i++)
        if (cli_makes_boxes(r->s.model, name))
            eval_want(r, name);
    if (r->task != &eval_objects) {
        for (size_t i = 0; i < sizeof of_masks / sizeof *of_masks; i++)
            eval_want(r, of_masks[i]);
        CLI_TRY(annotations_read_masks(&r->annotations));
    }
    return eval_coco_begin(r);
}

/* ---- a picture ---- */

static void add_box(json_t *boxes, const eval_run *r, const eval_runner *run,
                    const fovea_detection *d)
{
    double at[4];
    const uint32_t category = eval_coco_category(r, d->label);
    if (category == UINT32_MAX)
        return;
    cli_place_box(at, d, run->width, run->height);
    const double numbers[BOX_NUMBERS] = {category, at[0], at[1], at[2], at[3], (double)d->score};
    for (int i = 0; i < BOX_NUMBERS; i++)
        json_array_append_new(boxes, json_real(numbers[i]));
}

static int measure_boxes(json_t *record, const eval_run *r, const eval_runner *run)
{
    const size_t capacity = r->s.info.boxes;
    fovea_detection *found = cli_alloc(capacity, sizeof *found);
    size_t n = 0;
    const int code =
        cli_check(fovea_detections(run->plan, run->outs, run->n_outputs, found, capacity, &n));
    json_t *boxes = json_array();
    for (size_t i = 0; i < n && !code; i++)
        add_box(boxes, r, run, &found[i]);
    json_object_set_new(record, "boxes", boxes);
    free(found);
    return code;
}

/* Masks of annotations are compared pixel by pixel, so that their size must be the picture's. */
static int check_sizes(const eval_run *r, const dataset_picture *p, size_t index)
{
    const annotations *a = &r->annotations;
    for (size_t k = 0; k < a->n; k++) {
        const run_lengths *m = &a->mask[k];
        if (a->object[k].image != r->image_of[index] ||
            (m->width == p->width && m->height == p->height))
            continue;
        char *name = eval_picture_name(r, index);
        cli_tell("%s: the picture has %u x %u pixels, but the mask of annotations[%zu] has %u x %u",
                 name, p->width, p->height, a->at[k], m->width, m->height);
        free(name);
        return EVAL_SKIP;
    }
    return CLI_OK;
}

static int add_mask(json_t *masks, const eval_run *r, const eval_runner *run, const fovea_mask *m,
                    uint8_t *inside)
{
    const uint32_t category = eval_coco_category(r, m->label);
    if (category == UINT32_MAX)
        return CLI_OK;
    CLI_TRY(cli_check(fovea_mask_pixels(run->plan, run->outs, run->n_outputs, m->query, inside,
                                        (size_t)run->width * run->height)));
    run_lengths lengths = run_lengths_of_pixels(inside, run->width, run->height);
    char *text = run_lengths_pack(&lengths);
    json_array_append_new(masks, json_pack("{s:I, s:f, s:s}", "category", (json_int_t)category,
                                           "score", (double)m->score, "counts", text));
    free(text);
    run_lengths_free(&lengths);
    return CLI_OK;
}

/* Finds masks of any score, because average precision looks at all scores. */
static int measure_masks(json_t *record, const eval_run *r, const eval_runner *run)
{
    fovea_mask_options options = FOVEA_MASK_OPTIONS_INIT;
    options.rule = FOVEA_MASKS_INSTANCE;
    options.threshold = FLT_MIN;
    const size_t capacity = cli_most_masks(&r->s.info);
    fovea_mask *found = cli_alloc(capacity, sizeof *found);
    uint8_t *inside = cli_alloc((size_t)run->width * run->height, sizeof *inside);
    size_t n = 0;
    int code = cli_check(
        fovea_masks(run->plan, run->outs, run->n_outputs, &options, found, capacity, &n, NULL, 0));
    json_t *masks = json_array();
    for (size_t i = 0; i < n && !code; i++)
        code = add_mask(masks, r, run, &found[i], inside);
    json_object_set_new(record, "masks", masks);
    free(inside);
    free(found);
    return code;
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    json_object_set_new(record, "image", json_integer((json_int_t)r->image_of[index]));
    if (r->task != &eval_masks)
        CLI_TRY(measure_boxes(record, r, &c->run));
    if (r->task == &eval_objects)
        return CLI_OK;
    CLI_TRY(check_sizes(r, p, index));
    json_object_set_new(record, "width", json_integer((json_int_t)p->width));
    json_object_set_new(record, "height", json_integer((json_int_t)p->height));
    return measure_masks(record, r, &c->run);
}

/* ---- all of them ---- */

static uint32_t image_of(const json_t *record)
{
    return (uint32_t)json_integer_value(json_object_get(record, "image"));
}

static size_t gather_boxes(object_found **out, const json_t *records)
{
    size_t i, n = 0;
    json_t *record;
    *out = NULL;
    json_array_foreach(records, i, record) {
        const json_t *boxes = json_object_get(record, "boxes");
        for (size_t k = 0; k + BOX_NUMBERS <= json_array_size(boxes); k += BOX_NUMBERS) {
            double v[BOX_NUMBERS];
            for (size_t j = 0; j < BOX_NUMBERS; j++)
                v[j] = json_number_value(json_array_get(boxes, k + j));
            *out = cli_grow(*out, n, sizeof **out);
            (*out)[n++] = (object_found){
                image_of(record), (uint32_t)v[0], {v[1], v[2], v[3], v[4]}, v[5], NULL};
        }
    }
    return n;
}

static size_t count_masks(const json_t *records)
{
    size_t i, n = 0;
    json_t *record;
    json_array_foreach(records, i, record)
        n += json_array_size(json_object_get(record, "masks"));
    return n;
}

/* Collects the masks that were found, with their run lengths in `own`. */
static size_t gather_masks(object_found *out, run_lengths *own, const annotations *a,
                           const json_t *records)
{
    size_t i, k, n = 0;
    json_t *record, *mask;
    json_array_foreach(records, i, record)
        json_array_foreach(json_object_get(record, "masks"), k, mask) {
            const uint32_t image = image_of(record);
            const json_int_t width = json_integer_value(json_object_get(record, "width")),
                             height = json_integer_value(json_object_get(record, "height"));
            if (image >= a->images || !run_lengths_read(&own[n], json_object_get(mask, "counts"),
                                                        (uint32_t)width, (uint32_t)height))
                continue;
            out[n] = (object_found){
                .image = image,
                .category = (uint32_t)json_integer_value(json_object_get(mask, "category")),
                .score = json_number_value(json_object_get(mask, "score")),
                .mask = &own[n]};
            n++;
        }
    return n;
}

/* Collects the objects in the pictures that have a record. */
static size_t gather_objects(object_truth *out, const annotations *a, const json_t *records,
                             bool masks)
{
    bool *judged = cli_alloc(a->images, sizeof *judged);
    size_t i, n = 0;
    json_t *record;
    json_array_foreach(records, i, record) {
        if (image_of(record) < a->images)
            judged[image_of(record)] = true;
    }
    for (i = 0; i < a->n; i++)
        if (judged[a->object[i].image]) {
            out[n] = a->object[i];
            out[n++].mask = masks ? &a->mask[i] : NULL;
        }
    free(judged);
    return n;
}

/* Sets the measures, whose keys begin with `prefix`. */
static void set_scores(json_t *out, const char *prefix, const object_scores *s)
{
    const struct {
        const char *key;
        double value;
    } all[] = {{"ap", s->ap},
               {"ap50", s->ap50},
               {"ap75", s->ap75},
               {"ap_small", s->ap_small},
               {"ap_medium", s->ap_medium},
               {"ap_large", s->ap_large},
               {"ar1", s->ar1},
               {"ar10", s->ar10},
               {"ar100", s->ar100},
               {"ar_small", s->ar_small},
               {"ar_medium", s->ar_medium},
               {"ar_large", s->ar_large}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%s", prefix, all[i].key);
        json_object_set_new(out, key, json_real(all[i].value));
    }
}

static void score_boxes(json_t *out, const eval_run *r, const json_t *records)
{
    object_found *found;
    object_truth *truth = cli_alloc(r->annotations.n + 1, sizeof *truth);
    const size_t n_found = gather_boxes(&found, records);
    const size_t n_truth = gather_objects(truth, &r->annotations, records, false);
    const object_scores s = object_score(truth, n_truth, found, n_found);
    set_scores(out, "", &s);
    free(truth);
    free(found);
}

static void score_masks(json_t *out, const eval_run *r, const json_t *records)
{
    const size_t most = count_masks(records);
    object_found *found = cli_alloc(most + 1, sizeof *found);
    run_lengths *own = cli_alloc(most + 1, sizeof *own);
    object_truth *truth = cli_alloc(r->annotations.n + 1, sizeof *truth);
    const size_t n_found = gather_masks(found, own, &r->annotations, records);
    const size_t n_truth = gather_objects(truth, &r->annotations, records, true);
    const object_scores s = object_score(truth, n_truth, found, n_found);
    set_scores(out, "mask_", &s);
    for (size_t i = 0; i < n_found; i++)
        run_lengths_free(&own[i]);
    free(own);
    free(found);
    free(truth);
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    json_t *out = json_object();
    if (r->task != &eval_masks)
        score_boxes(out, r, records);
    if (r->task != &eval_objects)
        score_masks(out, r, records);
    return out;
}

static const eval_column box_columns[] = {{"ap", "AP"},
                                          {"ap50", "AP50"},
                                          {"ap75", "AP75"},
                                          {"ap_small", "AP s"},
                                          {"ap_medium", "AP m"},
                                          {"ap_large", "AP l"},
                                          {"ar1", "AR1"},
                                          {"ar10", "AR10"},
                                          {"ar100", "AR100"},
                                          {"ar_small", "AR s"},
                                          {"ar_medium", "AR m"},
                                          {"ar_large", "AR l"},
                                          {NULL}};
static const eval_column mask_columns[] = {{"mask_ap", "mask AP"},
                                           {"mask_ap50", "AP50"},
                                           {"mask_ap75", "AP75"},
                                           {"mask_ap_small", "AP s"},
                                           {"mask_ap_medium", "AP m"},
                                           {"mask_ap_large", "AP l"},
                                           {"mask_ar1", "AR1"},
                                           {"mask_ar10", "AR10"},
                                           {"mask_ar100", "AR100"},
                                           {"mask_ar_small", "AR s"},
                                           {"mask_ar_medium", "AR m"},
                                           {"mask_ar_large", "AR l"},
                                           {NULL}};
/* The recalls are only in JSON, because the table would be too wide. */
static const eval_column instance_columns[] = {{"ap", "box AP"},
                                               {"ap50", "AP50"},
                                               {"ap75", "AP75"},
                                               {"ap_small", "AP s"},
                                               {"ap_medium", "AP m"},
                                               {"ap_large", "AP l"},
                                               {"mask_ap", "mask AP"},
                                               {"mask_ap50", "AP50"},
                                               {"mask_ap75", "AP75"},
                                               {"mask_ap_small", "AP s"},
                                               {"mask_ap_medium", "AP m"},
                                               {"mask_ap_large", "AP l"},
                                               {NULL}};
const eval_task eval_objects = {"detection", box_columns, begin, measure, metrics};
const eval_task eval_masks = {"instance segmentation", mask_columns, begin, measure, metrics};
const eval_task eval_instances = {"detection and instance segmentation", instance_columns, begin,
                                  measure, metrics};
