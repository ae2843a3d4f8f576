/* eval_boxes.c: detection: average precision and recall of boxes by COCO's rules. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"

enum { BOX_NUMBERS = 6 }; /* category, x, y, width, height, score */

/* ---- what is judged ---- */

/* Pictures that the annotations name and the folder has not. */
static int check_missing(const eval_run *r, const bool *there)
{
    const annotations *a = &r->annotations;
    size_t missing = 0, first = 0;
    for (size_t i = a->images; i-- > 0;)
        if (!there[i]) {
            missing++;
            first = i;
        }
    if (missing == a->images)
        return cli_fail(CLI_INPUT, "%s: holds no picture that %s names", r->data_path,
                        r->annotations_path);
    if (missing > 0 && r->common.strict)
        return cli_fail(CLI_INPUT, "%s: names %s, which is not in %s", r->annotations_path,
                        annotations_picture(a, first), r->data_path);
    if (missing > 0)
        cli_tell("%s: %zu of its %zu pictures are not in %s and left out, %s is the first",
                 r->annotations_path, missing, a->images, r->data_path,
                 annotations_picture(a, first));
    return CLI_OK;
}

/* Of the folder's pictures, in their order, those that the annotations name. */
static int choose(eval_run *r, bool *there)
{
    dataset *d = &r->data;
    size_t kept = 0;
    int code = CLI_OK;
    r->image_of = cli_alloc(d->n, sizeof *r->image_of);
    for (size_t i = 0; i < d->n; i++) {
        const dataset_file f = d->file[i];
        const size_t image = annotations_find(&r->annotations, f.path);
        if (!code && image < r->annotations.images && there[image])
            code = cli_fail(CLI_INPUT, "%s: two pictures are called %s", r->data_path,
                            cli_file_name(f.path));
        if (code || image == r->annotations.images) {
            free(f.path);
            free(f.mask);
            continue;
        }
        there[image] = true;
        r->image_of[kept] = (uint32_t)image;
        d->file[kept++] = f;
    }
    if (!code && kept < d->n)
        cli_tell("%s: %zu of its %zu pictures are not in %s and left out", r->data_path,
                 d->n - kept, d->n, r->annotations_path);
    d->n = kept;
    d->masks = 0; /* are not read */
    return code;
}

static int choose_pictures(eval_run *r)
{
    if (!r->data.file)
        return cli_fail(CLI_INPUT, "--annotations: %s is no folder of pictures", r->data_path);
    bool *there = cli_alloc(r->annotations.images, sizeof *there);
    int code = choose(r, there);
    CLI_THEN(code, check_missing(r, there));
    free(there);
    return code;
}

/* Of the model's classes those that are called as a category. */
static int match_names(eval_run *r)
{
    const annotations *a = &r->annotations;
    size_t found = 0;
    for (size_t c = 0; c < a->categories; c++) {
        const char *name = annotations_category(a, c);
        bool any = false;
        for (size_t k = 0; name && k < r->classes; k++)
            if (eval_same_name(name, fovea_model_label(r->s.model, (uint32_t)k))) {
                r->class_of[k] = (uint32_t)c;
                any = true;
            }
        found += any;
    }
    if (found == 0)
        return cli_fail(CLI_INPUT,
                        "%s: none of its %zu categories is called as one of the model's %zu "
                        "classes",
                        r->annotations_path, a->categories, r->classes);
    if (found < a->categories)
        cli_tell("%s: %zu of its %zu categories are no classes of the model; their objects count "
                 "as not found",
                 r->annotations_path, a->categories - found, a->categories);
    return CLI_OK;
}

/* Without names: the categories in the order of their ids; of a model that is known to have more
 * classes, the class whose number is the id. */
static int match_numbers(eval_run *r)
{
    const annotations *a = &r->annotations;
    const size_t known = r->s.info.classes;
    for (size_t c = 0; c < a->categories; c++) {
        const json_int_t at = known > a->categories ? annotations_id(a, c) : (json_int_t)c;
        if (at < 0 || (size_t)at >= r->classes)
            return cli_fail(CLI_INPUT,
                            "%s: category %lld is none of the model's %zu classes, which have no "
                            "names; \"id2label\" in config.json gives them names",
                            r->annotations_path, (long long)annotations_id(a, c), r->classes);
        r->class_of[at] = (uint32_t)c;
    }
    return CLI_OK;
}

static int match_categories(eval_run *r)
{
    size_t named = 0;
    while (fovea_model_label(r->s.model, (uint32_t)named))
        named++;
    const size_t known = r->s.info.classes ? r->s.info.classes : r->annotations.categories;
    r->classes = named ? named : known;
    r->class_of = cli_alloc(r->classes, sizeof *r->class_of);
    for (size_t k = 0; k < r->classes; k++)
        r->class_of[k] = UINT32_MAX;
    return named ? match_names(r) : match_numbers(r);
}

static int begin(eval_run *r)
{
    const char *name;
    if (r->s.info.boxes == 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: finds no boxes; --against MODEL2 compares features",
                        r->path);
    for (size_t i = 0; (name = fovea_model_output(r->s.model, i)); i++)
        if (cli_makes_boxes(r->s.model, name))
            eval_want(r, name);
    CLI_TRY(annotations_read(&r->annotations, r->annotations_path));
    CLI_TRY(choose_pictures(r));
    return match_categories(r);
}

/* ---- a picture ---- */

static void add_box(json_t *boxes, const eval_run *r, const eval_runner *run,
                    const fovea_detection *d)
{
    double at[4];
    if (d->label >= r->classes || r->class_of[d->label] == UINT32_MAX)
        return;
    cli_place_box(at, d, &run->info, run->width, run->height);
    const double numbers[BOX_NUMBERS] = {r->class_of[d->label], at[0], at[1], at[2], at[3],
                                         (double)d->score};
    for (int i = 0; i < BOX_NUMBERS; i++)
        json_array_append_new(boxes, json_real(numbers[i]));
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    (void)p;
    const size_t room = r->s.info.boxes;
    fovea_detection *found = cli_alloc(room, sizeof *found);
    size_t n = 0;
    const int code =
        cli_check(fovea_detections(c->run.plan, c->run.outs, c->run.n_outputs, found, room, &n));
    json_t *boxes = json_array();
    for (size_t i = 0; i < n && !code; i++)
        add_box(boxes, r, &c->run, &found[i]);
    json_object_set_new(record, "image", json_integer((json_int_t)r->image_of[index]));
    json_object_set_new(record, "boxes", boxes);
    free(found);
    return code;
}

/* ---- all of them ---- */

static size_t gather_boxes(box_found **out, const json_t *records)
{
    size_t i, n = 0;
    json_t *record;
    *out = NULL;
    json_array_foreach(records, i, record) {
        const json_t *boxes = json_object_get(record, "boxes");
        const uint32_t image = (uint32_t)json_integer_value(json_object_get(record, "image"));
        for (size_t k = 0; k + BOX_NUMBERS <= json_array_size(boxes); k += BOX_NUMBERS) {
            double v[BOX_NUMBERS];
            for (size_t j = 0; j < BOX_NUMBERS; j++)
                v[j] = json_number_value(json_array_get(boxes, k + j));
            *out = cli_grow(*out, n, sizeof **out);
            (*out)[n++] = (box_found){image, (uint32_t)v[0], {v[1], v[2], v[3], v[4]}, v[5]};
        }
    }
    return n;
}

/* Objects of the pictures that have a record. */
static size_t gather_objects(box_truth *out, const annotations *a, const json_t *records)
{
    bool *judged = cli_alloc(a->images, sizeof *judged);
    size_t i, n = 0;
    json_t *record;
    json_array_foreach(records, i, record) {
        const size_t image = (size_t)json_integer_value(json_object_get(record, "image"));
        if (image < a->images)
            judged[image] = true;
    }
    for (i = 0; i < a->n; i++)
        if (judged[a->object[i].image])
            out[n++] = a->object[i];
    free(judged);
    return n;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    box_found *found;
    box_truth *truth = cli_alloc(r->annotations.n + 1, sizeof *truth);
    const size_t n_found = gather_boxes(&found, records);
    const size_t n_truth = gather_objects(truth, &r->annotations, records);
    const box_scores s = box_score(truth, n_truth, found, n_found);
    free(truth);
    free(found);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ap", s.ap,
                     "ap50", s.ap50, "ap75", s.ap75, "ap_small", s.ap_small, "ap_medium",
                     s.ap_medium, "ap_large", s.ap_large, "ar1", s.ar1, "ar10", s.ar10, "ar100",
                     s.ar100, "ar_small", s.ar_small, "ar_medium", s.ar_medium, "ar_large",
                     s.ar_large);
}

static double first_metric(const json_t *result)
{
    return eval_metric(result, "ap");
}

static const eval_column columns[] = {{"ap", "AP", first_metric},
                                      {"ap50", "AP50", NULL},
                                      {"ap75", "AP75", NULL},
                                      {"ap_small", "AP s", NULL},
                                      {"ap_medium", "AP m", NULL},
                                      {"ap_large", "AP l", NULL},
                                      {"ar1", "AR1", NULL},
                                      {"ar10", "AR10", NULL},
                                      {"ar100", "AR100", NULL},
                                      {"ar_small", "AR s", NULL},
                                      {"ar_medium", "AR m", NULL},
                                      {"ar_large", "AR l", NULL},
                                      {NULL}};
const eval_task eval_boxes = {"detection", columns, begin, measure, metrics};
