/* eval_agreement.c: measures how similar the features of patches are to another model's; needs no
 * labels. */
#include <math.h>
#include <stdlib.h>

#include "cli/eval/eval.h"

static int begin(eval_run *r)
{
    const char *own = cli_features_output(r->s.model);
    CLI_TRY(cli_load_model(&r->other, r->against, NULL, NULL));
    r->other_output = cli_features_output(r->other);
    if (!own || !r->other_output)
        return cli_fail(CLI_UNSUPPORTED, "%s has no patch features; choose another model",
                        own ? r->against : r->path);
    eval_want(r, own);
    return CLI_OK;
}

static int check(const eval_runner *a, const eval_runner *b)
{
    const fovea_output_info *x = &a->out, *y = &b->out;
    if (x->grid_width == y->grid_width && x->grid_height == y->grid_height &&
        x->columns == y->columns)
        return CLI_OK;
    return cli_fail(CLI_UNSUPPORTED,
                    "%s gives %ux%u patches of %u channels, but %s gives %ux%u patches of %u; %s",
                    a->path, x->grid_width, x->grid_height, x->columns, b->path, y->grid_width,
                    y->grid_height, y->columns,
                    a->info.width != b->info.width
                        ? "use --size to give both models the same picture"
                        : "they cannot be compared");
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    (void)r;
    (void)p;
    (void)index;
    CLI_TRY(check(&c->run, &c->reference));
    const fovea_output_info *out = &c->run.out;
    const cli_likeness like =
        cli_compare_rows(eval_patches(&c->run), eval_patches(&c->reference),
                         (size_t)out->grid_width * out->grid_height, out->columns);
    json_object_set_new(record, "cosine", json_real(like.mean));
    json_object_set_new(record, "worst", json_real(like.worst));
    return CLI_OK;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    double picture = INFINITY, patch = INFINITY;
    size_t i;
    json_t *record;
    (void)r;
    json_array_foreach(records, i, record) {
        picture = fmin(picture, json_number_value(json_object_get(record, "cosine")));
        patch = fmin(patch, json_number_value(json_object_get(record, "worst")));
    }
    return json_pack("{s:f, s:f, s:f}", "cosine", eval_mean(records, "cosine"), "worst_picture",
                     picture, "worst_patch", patch);
}

static const eval_column columns[] = {{"cosine", "cosine"},
                                      {"worst_picture", "worst picture"},
                                      {"worst_patch", "worst patch"},
                                      {NULL}};
const eval_task eval_agreement = {"agreement", columns, begin, measure, metrics};
