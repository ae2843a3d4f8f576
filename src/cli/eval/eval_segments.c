/* eval_segments.c: measures segmentation: mean intersection over union, and the share of pixels
 * with the right class, at the masks' own resolution. */
#include <stdlib.h>

#include "cli/common/segment_metrics.h"
#include "cli/eval/eval.h"

static int begin(eval_run *r)
{
    const char *name = cli_segments_output(r->s.model);
    const bool masks = !name && r->s.info.masks > 0;
    if (masks ? !eval_want(r, "masks_queries_logits") || !eval_want(r, "class_queries_logits")
              : !name || !eval_want(r, name))
        return cli_fail(CLI_UNSUPPORTED,
                        "%s has no segmentation head; add a linear one to its folder as "
                        "segmentation.safetensors",
                        r->path);
    if (r->s.info.segments > SEGMENT_CLASSES)
        return cli_fail(CLI_UNSUPPORTED,
                        "%s: the head has %u classes, but masks can have at most %d", r->path,
                        r->s.info.segments, SEGMENT_CLASSES);
    CLI_TRY(dataset_reduce(&r->data, r->reduce_labels, &r->s.info));
    if (r->data.reduce)
        eval_tell_mapping(
            r, "masks: 0 and 255 mean no class, and k means class k - 1, because of %s",
            r->reduce_labels ? "--reduce-labels" : "do_reduce_labels of the model's preprocessing");
    else
        eval_tell_mapping(r, "masks: k means class k, and 255 means no class");
    return CLI_OK;
}

static int check_mask(uint64_t *labelled, const eval_run *r, const dataset_picture *p, size_t index)
{
    const size_t pixels = (size_t)p->width * p->height;
    uint8_t top = 0;
    for (size_t i = 0; i < pixels; i++)
        if (p->mask[i] != SEGMENT_NO_CLASS) {
            top = p->mask[i] > top ? p->mask[i] : top;
            ++*labelled;
        }
    if (top < r->s.info.segments)
        return CLI_OK;
    char *name = eval_picture_name(r, index);
    cli_tell("%s: the mask has class %u, but the head has only %u classes%s", name, top,
             r->s.info.segments,
             top == r->s.info.segments && !r->data.reduce
                 ? "; use --reduce-labels yes if 0 is not a class and classes start at 1"
                 : "");
    free(name);
    return EVAL_SKIP;
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    const eval_runner *run = &c->run;
    const size_t pixels = (size_t)p->width * p->height;
    uint64_t labelled = 0;
    CLI_TRY(check_mask(&labelled, r, p, index));
    segment_counts *n = cli_alloc(1, sizeof *n);
    uint16_t *class = cli_alloc(pixels, sizeof *class);
    const int code = cli_check(
        fovea_class_map(run->plan, run->outs, run->n_outputs, FOVEA_EXTENT_FRAME, class, pixels));
    if (!code)
        segment_count(n, p->mask, class, pixels);
    json_t *classes = json_array();
    for (int k = 0; k < SEGMENT_CLASSES; k++)
        if (segment_present(n, k))
            json_array_append_new(classes,
                                  json_pack("[i, I, I, I]", k, (json_int_t)n->truth[k],
                                            (json_int_t)n->found[k], (json_int_t)n->both[k]));
    json_object_set_new(record, "classes", classes);
    json_object_set_new(record, "labelled", json_integer((json_int_t)labelled));
    json_object_set_new(record, "seen", json_integer((json_int_t)n->seen));
    free(class);
    free(n);
    return code;
}

static uint64_t number(const json_t *array, size_t i)
{
    return (uint64_t)json_integer_value(json_array_get(array, i));
}

static void add(segment_counts *all, const json_t *classes)
{
    size_t i;
    json_t *c;
    json_array_foreach(classes, i, c) {
        const uint64_t k = number(c, 0) % SEGMENT_CLASSES;
        all->truth[k] += number(c, 1);
        all->found[k] += number(c, 2);
        all->both[k] += number(c, 3);
    }
}

static json_t *class_json(const eval_run *r, const segment_counts *n, int k)
{
    const char *label = r->s.info.classes == 0 ? fovea_model_label(r->s.model, (uint32_t)k) : NULL;
    return json_pack("{s:i, s:o, s:f, s:I}", "class", k, "label", cli_json_text(label ? label : ""),
                     "iou", segment_iou(n, k), "pixels", (json_int_t)n->truth[k]);
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    segment_counts *n = cli_alloc(1, sizeof *n);
    uint64_t labelled = 0;
    json_t *record, *classes = json_array();
    size_t i;
    json_array_foreach(records, i, record) {
        add(n, json_object_get(record, "classes"));
        labelled += (uint64_t)json_integer_value(json_object_get(record, "labelled"));
        n->seen += (uint64_t)json_integer_value(json_object_get(record, "seen"));
    }
    for (int k = 0; k < SEGMENT_CLASSES; k++)
        if (segment_present(n, k))
            json_array_append_new(classes, class_json(r, n, k));
    const segment_scores s = segment_score(n);
    const double share = (double)n->seen / (double)labelled;
    free(n);
    return json_pack("{s:o, s:o, s:o, s:o}", "miou", cli_json_number(s.miou), "pixel_accuracy",
                     cli_json_number(s.pixel_accuracy), "seen", cli_json_number(share), "classes",
                     classes);
}

static const eval_column columns[] = {
    {"miou", "mIoU"}, {"pixel_accuracy", "pixels"}, {"seen", "seen"}, {NULL}};
const eval_task eval_segments = {"segmentation", columns, begin, measure, metrics};
