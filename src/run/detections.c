/* detections.c: fovea_detections: records of the boxes in a frame's outputs. */
#include <string.h>

#include "models/detection.h"
#include "models/model.h"
#include "plan/plan.h"
#include "run/boxes.h"

static fovea_status find_output(const float **data, const fv_wanted **out, const fovea_plan *p,
                                const fovea_output *outs, const char *name)
{
    for (uint32_t i = 0; i < p->b.n_wanted; i++) {
        const fv_wanted *w = &p->b.wanted[i];
        if (strcmp(w->name, name) != 0)
            continue;
        const fv_value *v = &p->b.value[w->value];
        const uint64_t bytes = (uint64_t)v->rows * v->cols * sizeof(float);
        *data = outs[i].data;
        *out = w;
        return outs[i].data && outs[i].size >= bytes
                   ? FOVEA_OK
                   : fv_fail(FOVEA_EINVAL, "output %s: a buffer of %zu bytes, it has %llu", name,
                             outs[i].data ? outs[i].size : 0, (unsigned long long)bytes);
    }
    return fv_fail(FOVEA_EINVAL, "the plan lacks output %s", name);
}

static fovea_status find_level(fv_box_level *out, const fovea_plan *p, const fovea_output *outs,
                               const fv_detection *d, uint32_t level)
{
    const fv_wanted *w;
    FV_TRY(find_output(&out->cls, &w, p, outs, fv_detection_logits(d, level).text));
    FV_TRY(find_output(&out->box, &w, p, outs, fv_detection_boxes(d, level).text));
    out->width = d->of_queries ? p->b.value[w->value].rows : w->grid.width;
    out->height = d->of_queries ? 1 : w->grid.height;
    return FOVEA_OK;
}

fovea_status fovea_detections(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                              fovea_detection *boxes, size_t room, size_t *count)
{
    fv_box_level level[FV_LEVELS];
    FV_TRY(fv_require(plan, "the plan"));
    FV_TRY(fv_require(outs, "the outputs"));
    FV_TRY(fv_require(count, "the place of the number of boxes"));
    if (room > 0)
        FV_TRY(fv_require(boxes, "the place of the boxes"));
    const fv_detection *d = plan->model ? plan->model->detection : NULL;
    if (!d)
        return fv_fail(FOVEA_ENOTSUP, "the plan's model finds no boxes");
    if (!plan->b.candidates)
        return fv_fail(FOVEA_EINVAL,
                       "boxes need all outputs %s; ask for them when the plan is made",
                       d->of_queries ? "logits and pred_boxes" : "cls.0, box.0, ...");
    if (n_outs != plan->b.n_wanted)
        return fv_fail(FOVEA_EINVAL, "%zu outputs given, the plan has %u", n_outs,
                       plan->b.n_wanted);
    for (uint32_t i = 0; i < d->levels; i++)
        FV_TRY(find_level(&level[i], plan, outs, d, i));
    *count = fv_boxes_find(d, level, (float)plan->info.width, (float)plan->info.height,
                           (fv_candidate *)plan->b.candidates, boxes, room);
    if (*count > room)
        *count = room;
    return FOVEA_OK;
}
