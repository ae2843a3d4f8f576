/* detections.c: fovea_detections: makes records from the boxes in a detector's outputs. */
#include <math.h>
#include <string.h>

#include "models/detection.h"
#include "models/model.h"
#include "run/boxes.h"
#include "run/task_output.h"

static fovea_status find_level(fv_box_level *out, const fovea_plan *p, const fovea_output *outs,
                               const fv_detection *d, uint32_t level)
{
    fv_task_output cls, box;
    FV_TRY(fv_task_output_named(&cls, p, outs, fv_detection_logits(d, level).text));
    FV_TRY(fv_task_output_named(&box, p, outs, fv_detection_boxes(d, level).text));
    *out = (fv_box_level){.cls = cls.data,
                          .box = box.data,
                          .width = d->of_queries ? box.rows : box.grid.width,
                          .height = d->of_queries ? 1 : box.grid.height};
    return FOVEA_OK;
}

/* Converts boxes from pixels of the picture that was run to pixels of the frame. */
static void place_in_frame(fovea_detection *boxes, size_t n, const fovea_plan_info *i)
{
    for (fovea_detection *d = boxes; d < boxes + n; d++) {
        d->x1 = (float)(i->left + (double)d->x1 * i->scale_x);
        d->y1 = (float)(i->top + (double)d->y1 * i->scale_y);
        d->x2 = (float)(i->left + (double)d->x2 * i->scale_x);
        d->y2 = (float)(i->top + (double)d->y2 * i->scale_y);
    }
}

static bool is_region(const fv_detection *d, const float score[2], const float edge[4])
{
    bool finite = isfinite(score[0]);
    for (int i = 0; i < 4; i++)
        finite = finite && isfinite(edge[i]);
    return finite && score[1] >= 0 && score[1] < (float)d->classes;
}

/* Finds the boxes that an R-CNN outputs, which are in order, and sets *n to their number, of which
 * at most `capacity` are written. */
static fovea_status find_regions(size_t *n, const fovea_plan *p, const fovea_output *outs,
                                 fovea_detection *boxes, size_t capacity)
{
    fv_task_output score, box;
    FV_TRY(fv_task_output_of(&score, p, outs, FOVEA_OUTPUT_BOX_CLASSES, "pred_scores"));
    FV_TRY(fv_task_output_of(&box, p, outs, FOVEA_OUTPUT_BOXES, "pred_boxes"));
    *n = 0;
    for (uint32_t i = 0; i < box.rows; i++) {
        const float *edge = box.data + 4 * (size_t)i, *own = score.data + 2 * (size_t)i;
        if (!is_region(p->model->detection, own, edge))
            continue;
        p->run.results.candidates[*n] =
            (fv_box_candidate){.score = own[0], .place = i, .label = (uint32_t)own[1]};
        memcpy(p->run.results.candidates[*n].box, edge, 4 * sizeof *edge);
        if (*n < capacity)
            boxes[*n] =
                (fovea_detection){edge[0], edge[1], edge[2], edge[3], own[0], (uint32_t)own[1]};
        ++*n;
    }
    return FOVEA_OK;
}

fovea_status fv_detections_find(size_t *n, const fovea_plan *p, const fovea_output *outs,
                                fovea_detection *boxes, size_t capacity)
{
    fv_box_level level[FV_LEVELS];
    const fv_detection *d = p->model->detection;
    if (!d)
        return fv_fail(FOVEA_ENOTSUP, "the plan's model does not detect boxes; use a detector");
    if (!p->run.results.candidates)
        return fv_fail(
            FOVEA_EINVAL,
            "the plan lacks outputs of the detector; to find boxes, plan with all outputs %s",
            d->of_queries   ? "logits and pred_boxes"
            : d->of_regions ? "pred_scores and pred_boxes"
                            : "cls.0, box.0, ...");
    if (d->of_regions)
        return find_regions(n, p, outs, boxes, capacity);
    for (uint32_t i = 0; i < d->levels; i++)
        FV_TRY(find_level(&level[i], p, outs, d, i));
    *n = fv_boxes_find(d, level, (float)p->info.width, (float)p->info.height,
                       p->run.results.candidates, boxes, capacity);
    return FOVEA_OK;
}

fovea_status fovea_detections(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                              fovea_detection *boxes, size_t capacity, size_t *count)
{
    FV_TRY(fv_task_output_check(plan, outs, n_outs));
    FV_TRY(fv_require(count, "the pointer to the number of boxes"));
    if (capacity > 0)
        FV_TRY(fv_require(boxes, "the pointer to the boxes"));
    FV_TRY(fv_detections_find(count, plan, outs, boxes, capacity));
    if (*count > capacity)
        *count = capacity;
    place_in_frame(boxes, *count, &plan->info);
    return FOVEA_OK;
}
