/* eval_classes.c: classification: how often the true class has the largest score, or one of the
 * five largest. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/class_metrics.h"
#include "cli/eval/eval.h"

bool eval_same_name(const char *name, const char *label)
{
    if (strcmp(name, label) == 0)
        return true;
    for (; *name && *label && *label != ','; name++, label++) {
        const int a = *name == '_' ? ' ' : tolower((unsigned char)*name);
        const int b = *label == '_' ? ' ' : tolower((unsigned char)*label);
        if (a != b)
            return false;
    }
    return !*name && (!*label || *label == ',');
}

/* The class of the model that has the name of a folder; `classes`: none. */
static uint32_t find(const eval_run *r, const char *folder)
{
    const uint32_t classes = r->s.info.classes;
    for (uint32_t k = 0; k < classes; k++) {
        const char *label = fovea_model_label(r->s.model, k);
        if (label && eval_same_name(folder, label))
            return k;
    }
    return classes;
}

/* By the names of the model's classes where all folders have one of these, else in the order of the
 * folders' names. */
static int match(eval_run *r)
{
    const uint32_t classes = r->s.info.classes;
    const size_t folders = r->data.classes;
    size_t found = 0, missing = folders;
    for (size_t i = 0; i < folders; i++) {
        r->class_of[i] = r->data.class_name ? find(r, r->data.class_name[i]) : (uint32_t)i;
        if (r->class_of[i] < classes)
            found++;
        else
            missing = i;
    }
    if (found == folders)
        return CLI_OK;
    if (!r->data.class_name)
        return cli_fail(CLI_INPUT, "%s: has class %zu, the model %u classes", r->data_path, missing,
                        classes);
    if (found > 0)
        return cli_fail(CLI_INPUT,
                        "%s: %zu of %zu folders are named as classes of the model, %s is not",
                        r->data_path, found, folders, r->data.class_name[missing]);
    if (folders != classes)
        return cli_fail(CLI_INPUT,
                        "%s: %zu folders, of which none is named as one of the model's %u classes",
                        r->data_path, folders, classes);
    for (size_t i = 0; i < folders; i++)
        r->class_of[i] = (uint32_t)i;
    return CLI_OK;
}

static int begin(eval_run *r)
{
    if (cli_makes_boxes(r->s.model, "logits") || !eval_want(r, "logits")) /* not of queries */
        return cli_fail(CLI_UNSUPPORTED,
                        "%s: has no head for classes; --against MODEL2 compares features", r->path);
    r->class_of = cli_alloc(r->data.classes, sizeof *r->class_of);
    return match(r);
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

static double first_metric(const json_t *result)
{
    return eval_metric(result, "top1");
}

static const eval_column columns[] = {
    {"top1", "top-1", first_metric}, {"top5", "top-5", NULL}, {NULL}};
const eval_task eval_classes = {"classification", columns, begin, measure, metrics};
