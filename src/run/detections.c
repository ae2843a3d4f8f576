/* detections.c: fovea_detections: makes records from the boxes in a detector's outputs. */
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
            d->of_queries ? "logits and pred_boxes" : "cls.0, box.0, ...");
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
