/* eval_classes.c: measures classification: how often the true class has the largest score, or one
 * of the five largest. */
#include "cli/common/class_metrics.h"
#include "cli/eval/eval.h"

static int begin(eval_run *r)
{
    /* a detector's logits belong to queries */
    if (cli_makes_boxes(r->s.model, "logits") || !eval_want(r, "logits"))
        return cli_fail(CLI_UNSUPPORTED,
                        "%s has no classification head; --against MODEL2 compares features",
                        r->path);
    return eval_match_classes(r);
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    (void)index;
    const uint32_t before =
        class_before(eval_rows(&c->run), c->run.out.columns, r->class_of[p->label]);
    json_object_set_new(record, "before", json_integer((json_int_t)before));
    return CLI_OK;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    size_t i;
    json_t *record;
    class_counts n = {0};
    (void)r;
    json_array_foreach(records, i, record)
        class_count(&n, (uint32_t)json_integer_value(json_object_get(record, "before")));
    const class_scores s = class_score(&n);
    return json_pack("{s:f, s:f}", "top1", s.top1, "top5", s.top5);
}

static const eval_column columns[] = {{"top1", "top-1"}, {"top5", "top-5"}, {NULL}};
const eval_task eval_classes = {"classification", columns, begin, measure, metrics};
