/* class_map.c: fovea_class_map: finds the class of every pixel, from class logits, or from masks
 * and the classes of their queries. */
#include <string.h>

#include "models/model.h"
#include "run/mask_scores.h"

/* Finds classes from a grid of logits, which are interpolated directly to the map's pixels. */
static void classify_logits(uint16_t *out, const fovea_plan *plan, const fv_task_output *map,
                            const fv_extent *e)
{
    const fv_class_scratch scratch = fv_result_scratch_classes(plan);
    const fv_between *column = fv_extent_columns(e, plan, map->grid.width);
    const fv_side rows = fv_extent_down(e, map->grid.height);
    const uint32_t n = map->columns;
    const size_t line = (size_t)map->grid.width * n;
    for (uint32_t y = 0; y < e->height; y++, out += e->width) {
        const fv_between row = fv_side_between(&rows, y);
        fv_blend(scratch.line, map->data + row.first * line, map->data + row.second * line,
                 row.part, line);
        for (uint32_t x = 0; x < e->width; x++) {
            const fv_between *at = &column[x];
            if (row.outside || at->outside) {
                out[x] = FOVEA_NO_CLASS;
                continue;
            }
            fv_blend(scratch.pixel, scratch.line + (size_t)at->first * n,
                     scratch.line + (size_t)at->second * n, at->part, n);
            out[x] = fv_largest(scratch.pixel, n);
        }
    }
}

static void make_line(float *out, void *ctx, uint32_t y)
{
    const fv_mask_scores *s = ctx;
    memset(out, 0, (size_t)s->width * s->classes * sizeof *out);
    fv_mask_scores_add(out, s, y);
}

static fovea_status classify_masks(uint16_t *out, const fovea_plan *plan, const fovea_output *outs,
                                   const fv_extent *e)
{
    fv_task_output masks, classes;
    fv_extent run;
    FV_TRY(fv_task_output_of(&masks, plan, outs, FOVEA_OUTPUT_MASKS, "masks_queries_logits"));
    FV_TRY(
        fv_task_output_of(&classes, plan, outs, FOVEA_OUTPUT_MASK_CLASSES, "class_queries_logits"));
    FV_TRY(fv_extent_of_canvas(&run, plan));
    const fv_class_scratch scratch = fv_result_scratch_classes(plan);
    const uint32_t n = classes.columns - 1;
    fv_mask_shares(scratch.share, &classes);
    const fv_side grid = fv_extent_across(&run, masks.grid.width);
    const fv_side across = fv_extent_canvas_across(e, plan);
    fv_mask_scores scores = {.masks = masks,
                             .share = scratch.share,
                             .classes = n,
                             .width = run.width,
                             .rows = fv_extent_down(&run, masks.grid.height),
                             .column = fv_side_columns(scratch.columns, &grid, run.width),
                             .line = scratch.line,
                             .pixel = scratch.pixel};
    const fv_score_lines lines = {
        .make = make_line,
        .ctx = &scores,
        .classes = n,
        .width = run.width,
        .line = {scratch.score[0], scratch.score[1]},
        .mean = scratch.mean,
        .rows = fv_extent_canvas_down(e, plan),
        .column = fv_side_columns(fv_result_scratch_columns(plan), &across, e->width)};
    fv_score_lines_classify(out, &lines, e->width, e->height);
    return FOVEA_OK;
}

fovea_status fovea_class_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_extent extent, uint16_t *classes, size_t capacity)
{
    fv_task_output map;
    fv_extent e;
    FV_TRY(fv_task_output_check(plan, outs, n_outs));
    FV_TRY(fv_require(classes, "the map"));
    FV_TRY(fv_extent_of(&e, plan, extent));
    FV_TRY(fv_task_output_capacity("pixels", capacity, (size_t)e.width * e.height));
    if (!fv_graph_output(&plan->graph, FOVEA_OUTPUT_CLASS_MAP) && !plan->model->detection &&
        fv_graph_output(&plan->graph, FOVEA_OUTPUT_MASKS))
        return classify_masks(classes, plan, outs, &e);
    FV_TRY(
        fv_task_output_of(&map, plan, outs, FOVEA_OUTPUT_CLASS_MAP, "segmentation or seg_logits"));
    classify_logits(classes, plan, &map, &e);
    return FOVEA_OK;
}
