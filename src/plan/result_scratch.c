/* result_scratch.c: see result_scratch.h. */
#include "plan/result_scratch.h"

#include "base/num.h"
#include "models/detection.h"
#include "models/model.h"
#include "plan/plan.h"

enum {
    WORK_FLOATS = sizeof(fv_query_mask) / sizeof(float),
    COLUMN_WORDS = sizeof(fv_between) / sizeof(uint32_t),
    CUBIC_WORDS = sizeof(fv_cubic) / sizeof(uint32_t),
};

fv_canvas fv_mask_canvas(const fovea_plan *p)
{
    const uint32_t side = p->model->mask_square;
    return side ? (fv_canvas){side, side} : (fv_canvas){p->options.width, p->options.height};
}

/* Returns the output that is a class map, or else the masks, or NULL if the plan has neither. */
static const fv_wanted *map_of(const fv_graph *g)
{
    const fv_wanted *map = fv_graph_output(g, FOVEA_OUTPUT_CLASS_MAP);
    return map ? map : fv_graph_output(g, FOVEA_OUTPUT_MASKS);
}

static uint64_t line_floats(const fv_graph *g, const fv_wanted *map)
{
    return ((uint64_t)map->grid.width + 1) * g->value[map->value].cols;
}

/* Returns the number of classes of the masks, without the class "no object", or 0 if the plan has
 * no output of mask classes. */
static uint64_t classes_of(const fv_graph *g)
{
    const fv_wanted *classes = fv_graph_output(g, FOVEA_OUTPUT_MASK_CLASSES);
    return classes ? g->value[classes->value].cols - 1 : 0;
}

/* Returns the number of floats of scratch that the class map needs, or the masks, whose canvas is
 * `width` pixels wide. The classes of a detector's masks are those of its boxes; masks of
 * prompts have none. */
static uint64_t map_floats(const fovea_plan *p, const fv_wanted *map, uint32_t width)
{
    const fv_graph *g = &p->graph;
    const fv_detection *d = p->model->detection;
    const uint64_t queries = g->value[map->value].cols, n = classes_of(g);
    uint64_t floats = line_floats(g, map);
    if (d && d->of_regions)
        return d->mask_size + (uint64_t)d->max_per_img * WORK_FLOATS + 1;
    if (map->kind == FOVEA_OUTPUT_MASKS && (n || d || p->model->prompts)) {
        const uint64_t scores = queries * n + (2ull * width + 1) * n;
        const uint64_t records = 3ull * width * queries + queries * WORK_FLOATS + 1;
        floats += scores > records ? scores : records;
    }
    return floats;
}

static void reserve_maps(fovea_plan *p, fv_builder *b)
{
    const fv_graph *g = &p->graph;
    const fv_wanted *map = map_of(g), *depth = fv_graph_output(g, FOVEA_OUTPUT_DEPTH);
    const bool masks = map && map->kind == FOVEA_OUTPUT_MASKS;
    const uint32_t width = p->options.width, canvas = fv_mask_canvas(p).width;
    const uint32_t columns = p->frame.width > width ? p->frame.width : width;
    if (b->status != FOVEA_OK || (!map && !depth))
        return;
    const uint64_t of_depth = depth ? depth->grid.width : 0;
    const uint64_t of_map = map ? map_floats(p, map, canvas) : 0;
    if (of_map > UINT32_MAX) {
        b->status = fv_fail(FOVEA_ENOMEM, "output %s: the rows are too long; use a smaller picture",
                            map->name);
        return;
    }
    const uint32_t floats = (uint32_t)(of_map > of_depth ? of_map : of_depth);
    p->run.results.floats = (float *)(void *)fv_emit_table(b, floats);
    p->run.results.columns = fv_emit_table(b, columns * (depth ? CUBIC_WORDS : COLUMN_WORDS));
    p->run.results.run_columns = masks ? fv_emit_table(b, canvas * COLUMN_WORDS) : NULL;
}

void fv_result_scratch_reserve(fovea_plan *p, fv_builder *b)
{
    const fv_detection *d = p->model->detection;
    reserve_maps(p, b);
    if (d && fv_detection_wanted(d, &p->graph))
        p->run.results.candidates =
            (fv_box_candidate *)(void *)fv_emit_table(b, fv_detection_scratch(d));
}

fv_between *fv_result_scratch_columns(const fovea_plan *p)
{
    return (fv_between *)(void *)p->run.results.columns;
}

fv_cubic *fv_result_scratch_cubic_columns(const fovea_plan *p)
{
    return (fv_cubic *)(void *)p->run.results.columns;
}

fv_class_scratch fv_result_scratch_classes(const fovea_plan *p)
{
    const fv_result_scratch *s = &p->run.results;
    const fv_wanted *map = map_of(&p->graph);
    const uint64_t columns = p->graph.value[map->value].cols, width = fv_mask_canvas(p).width;
    const uint64_t all = line_floats(&p->graph, map), n = classes_of(&p->graph);
    fv_class_scratch r = {.line = s->floats, .pixel = s->floats + all - columns};
    if (map->kind == FOVEA_OUTPUT_MASKS && n) {
        r.share = s->floats + all;
        r.score[0] = r.share + columns * n;
        r.score[1] = r.score[0] + width * n;
        r.mean = r.score[1] + width * n;
        r.columns = (fv_between *)(void *)s->run_columns;
    }
    return r;
}

fv_mask_scratch fv_result_scratch_masks(const fovea_plan *p)
{
    const fv_result_scratch *s = &p->run.results;
    const fv_detection *d = p->model->detection;
    const fv_wanted *map = map_of(&p->graph);
    const uint64_t columns = p->graph.value[map->value].cols, width = fv_mask_canvas(p).width;
    const uint64_t all = line_floats(&p->graph, map);
    if (d && d->of_regions)
        return (fv_mask_scratch){
            .line = s->floats,
            .work = (fv_query_mask *)(void *)(s->floats + fv_round_up(d->mask_size, 2))};
    return (fv_mask_scratch){
        .line = s->floats,
        .wide = s->floats + all,
        .pixel = s->floats + all - columns,
        .inside = {s->floats + all + width * columns, s->floats + all + 2 * width * columns},
        .columns = (fv_between *)(void *)s->run_columns,
        .work = (fv_query_mask *)(void *)(s->floats +
                                          fv_round_up((uint32_t)(all + 3 * width * columns), 2))};
}
