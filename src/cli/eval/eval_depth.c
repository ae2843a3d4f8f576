/* eval_depth.c: measures the errors of depths against depth pictures, at the resolution of those
 * pictures. */
#include <stdlib.h>

#include "cli/common/depth_truth.h"
#include "cli/eval/eval.h"

const char *const eval_aligns[] = {"none", "median", "affine", NULL};

/* Checks that --align fits the model. Relative models compute inverse depth up to scale and shift,
 * which cannot be compared in metres. Metric models compute metres, which cannot be aligned as
 * inverse depth. */
static int check_align(const eval_run *r)
{
    const bool affine = r->align == DEPTH_AFFINE;
    if (!r->s.info.metric && !affine)
        return cli_fail(CLI_USAGE,
                        "%s predicts relative depth (larger is nearer), not metres; use --align "
                        "affine to fit it to the true depths of each picture",
                        r->path);
    if (r->s.info.metric && affine)
        return cli_fail(CLI_USAGE,
                        "%s predicts metres, but --align affine is for relative models; use "
                        "--align median to ignore a wrong scale",
                        r->path);
    return CLI_OK;
}

static int begin(eval_run *r)
{
    return eval_want(r, "predicted_depth")
               ? check_align(r)
               : cli_fail(CLI_UNSUPPORTED,
                          "%s predicts no depth; --against MODEL2 compares features", r->path);
}

static int compare(json_t *record, const eval_run *r, const eval_runner *run, const cli_image *map,
                   const char *path)
{
    const size_t pixels = (size_t)map->width * map->height;
    const depth_output of = {.width = run->width,
                             .height = run->height,
                             .plan = &run->info,
                             .data = eval_patches(run),
                             .columns = run->out.grid_width,
                             .rows = run->out.grid_height};
    double *found = cli_alloc(2 * pixels, sizeof *found), *truth = found + pixels;
    const size_t n = depth_truth_pairs(found, truth, map, r->depth_scale, &of);
    if (n > 0) {
        depth_align(found, truth, n, r->align);
        const depth_errors e = depth_compare(found, truth, n);
        json_object_set_new(record, "abs_rel", cli_json_number(e.abs_rel));
        json_object_set_new(record, "rmse", cli_json_number(e.rmse));
        json_object_set_new(record, "delta1", json_real(e.delta1));
    }
    free(found);
    return n > 0
               ? CLI_OK
               : cli_fail(EVAL_SKIP, "%s: no depth is known in the part that the model sees", path);
}

static int measure(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index)
{
    cli_image map;
    (void)p;
    if (c->run.out.columns != 1 || c->run.out.grid_width == 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: the depth output is not a picture; use another model",
                        r->path);
    char *path = depth_truth_path(r->data_path, r->data.file[index].path);
    int code = cli_depth_read(&map, path) ? EVAL_SKIP : CLI_OK;
    if (!code) {
        code = compare(record, r, &c->run, &map, path);
        cli_image_free(&map);
    }
    free(path);
    return code;
}

static json_t *metrics(const eval_run *r, const json_t *records)
{
    (void)r;
    return json_pack("{s:o, s:o, s:o}", "abs_rel", cli_json_number(eval_mean(records, "abs_rel")),
                     "rmse", cli_json_number(eval_mean(records, "rmse")), "delta1",
                     cli_json_number(eval_mean(records, "delta1")));
}

static const eval_column columns[] = {
    {"abs_rel", "AbsRel"}, {"rmse", "RMSE m"}, {"delta1", "delta1"}, {NULL}};
const eval_task eval_depth = {"depth", columns, begin, measure, metrics};
