/* class_map.c: fovea_class_map: class logits, or masks and their classes, become the class of every
 * pixel. */
#include <math.h>

#include "run/sigmoid.h"
#include "run/task_output.h"

static uint16_t largest(const float *score, uint32_t n)
{
    uint32_t best = 0;
    float most = score[0];
    for (uint32_t k = 1; k < n; k++)
        if (score[k] > most) {
            most = score[k];
            best = k;
        }
    return (uint16_t)best;
}

/* The probabilities of the first n classes of n + 1. */
static void share_out(float *out, const float *logits, uint32_t n)
{
    float top = logits[n];
    for (uint32_t k = 0; k < n; k++)
        top = fmaxf(top, logits[k]);
    double sum = exp(logits[n] - top);
    for (uint32_t k = 0; k < n; k++)
        sum += exp(logits[k] - top);
    for (uint32_t k = 0; k < n; k++)
        out[k] = (float)(exp(logits[k] - top) / sum);
}

/* Scores of a pixel: over all queries, the mask's probability times those of its classes. */
static void add_up(float *restrict score, const float *mask, const float *restrict share,
                   uint32_t queries, uint32_t classes)
{
    for (uint32_t k = 0; k < classes; k++)
        score[k] = 0;
    for (uint32_t q = 0; q < queries; q++, share += classes) {
        const float inside = fv_sigmoidf(mask[q]);
        for (uint32_t k = 0; k < classes; k++)
            score[k] += inside * share[k];
    }
}

/* The map of a grid of `map->columns` logits; with room.share they are of masks. */
static void classify(uint16_t *out, const fovea_plan *plan, const fv_task_output *map,
                     const fv_extent *e, uint32_t classes)
{
    const fv_class_room room = fv_task_room_classes(&plan->b);
    const fv_between *column = fv_extent_columns(e, plan, map->grid.width);
    const uint32_t n = map->columns;
    const size_t line = (size_t)map->grid.width * n;
    for (uint32_t y = 0; y < e->height; y++, out += e->width) {
        const fv_between row = fv_extent_row(e, y, map->grid.height);
        fv_blend(room.line, map->data + row.first * line, map->data + row.second * line, row.part,
                 line);
        for (uint32_t x = 0; x < e->width; x++) {
            const fv_between *at = &column[x];
            if (row.outside || at->outside) {
                out[x] = FOVEA_NO_CLASS;
                continue;
            }
            fv_blend(room.pixel, room.line + (size_t)at->first * n,
                     room.line + (size_t)at->second * n, at->part, n);
            if (room.share)
                add_up(room.score, room.pixel, room.share, n, classes);
            out[x] = largest(room.share ? room.score : room.pixel, classes);
        }
    }
}

fovea_status fovea_class_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                             fovea_extent extent, uint16_t *classes, size_t room)
{
    fv_task_output map, of_queries;
    fv_extent e;
    FV_TRY(fv_task_output_check(plan, outs, n_outs));
    FV_TRY(fv_require(classes, "the map"));
    FV_TRY(fv_extent_of(&e, plan, extent));
    FV_TRY(fv_task_output_room("pixels", room, (size_t)e.width * e.height));
    const bool masks = !fv_task_room_find(&plan->b, FOVEA_KIND_CLASS_MAP) &&
                       fv_task_room_find(&plan->b, FOVEA_KIND_MASKS);
    if (!masks) {
        FV_TRY(fv_task_output_of(&map, plan, outs, FOVEA_KIND_CLASS_MAP,
                                 "segmentation or seg_logits"));
        classify(classes, plan, &map, &e, map.columns);
        return FOVEA_OK;
    }
    FV_TRY(fv_task_output_of(&map, plan, outs, FOVEA_KIND_MASKS, "masks_queries_logits"));
    FV_TRY(fv_task_output_of(&of_queries, plan, outs, FOVEA_KIND_MASK_CLASSES,
                             "class_queries_logits"));
    const fv_class_room r = fv_task_room_classes(&plan->b);
    const uint32_t n = of_queries.columns - 1;
    for (uint32_t q = 0; q < of_queries.rows; q++)
        share_out(r.share + (size_t)q * n, of_queries.data + (size_t)q * of_queries.columns, n);
    classify(classes, plan, &map, &e, n);
    return FOVEA_OK;
}
