/* task_room.c: see task_room.h. */
#include "plan/task_room.h"

#include "base/num.h"

enum {
    WORK_FLOATS = sizeof(fv_query_mask) / sizeof(float),
    COLUMN_WORDS = sizeof(fv_between) / sizeof(uint32_t),
    CUBIC_WORDS = sizeof(fv_cubic) / sizeof(uint32_t),
};

const fv_wanted *fv_task_room_find(const fv_builder *b, fovea_output_kind kind)
{
    for (uint32_t i = 0; i < b->n_wanted; i++)
        if (b->wanted[i].kind == kind && b->wanted[i].value != FV_NO_VALUE)
            return &b->wanted[i];
    return NULL;
}

/* The output that is a map of classes, or of masks. */
static const fv_wanted *map_of(const fv_builder *b)
{
    const fv_wanted *map = fv_task_room_find(b, FOVEA_OUTPUT_CLASS_MAP);
    return map ? map : fv_task_room_find(b, FOVEA_OUTPUT_MASKS);
}

static uint64_t line_floats(const fv_builder *b, const fv_wanted *map)
{
    return ((uint64_t)map->grid.width + 1) * b->value[map->value].cols;
}

/* The classes of masks, without that of nothing; 0: the plan lacks them. */
static uint64_t classes_of(const fv_builder *b)
{
    const fv_wanted *classes = fv_task_room_find(b, FOVEA_OUTPUT_MASK_CLASSES);
    return classes ? b->value[classes->value].cols - 1 : 0;
}

/* That the map of classes, or the masks, take. */
static uint64_t map_floats(const fv_builder *b, const fv_wanted *map)
{
    const uint64_t queries = b->value[map->value].cols, n = classes_of(b);
    uint64_t floats = line_floats(b, map);
    if (map->kind == FOVEA_OUTPUT_MASKS && n) {
        const uint64_t scores = queries * n + (2ull * b->width + 1) * n;
        const uint64_t records = b->width * queries + queries * WORK_FLOATS + 1;
        floats += scores > records ? scores : records;
    }
    return floats;
}

void fv_task_room_reserve(fv_builder *b, uint32_t frame_width)
{
    const fv_wanted *map = map_of(b), *depth = fv_task_room_find(b, FOVEA_OUTPUT_DEPTH);
    const bool masks = map && map->kind == FOVEA_OUTPUT_MASKS;
    const uint32_t columns = frame_width > b->width ? frame_width : b->width;
    if (b->status != FOVEA_OK || (!map && !depth))
        return;
    const uint64_t of_depth = depth ? depth->grid.width : 0, of_map = map ? map_floats(b, map) : 0;
    if (of_map > UINT32_MAX) {
        b->status = fv_fail(FOVEA_ENOMEM, "output %s: a row of it is too long", map->name);
        return;
    }
    const uint32_t floats = (uint32_t)(of_map > of_depth ? of_map : of_depth);
    b->task_room = (float *)(void *)fv_emit_table(b, floats);
    b->task_columns = fv_emit_table(b, columns * (depth ? CUBIC_WORDS : COLUMN_WORDS));
    b->task_run_columns = masks ? fv_emit_table(b, b->width * COLUMN_WORDS) : NULL;
}

fv_between *fv_task_room_columns(const fv_builder *b)
{
    return (fv_between *)(void *)b->task_columns;
}

fv_cubic *fv_task_room_cubic_columns(const fv_builder *b)
{
    return (fv_cubic *)(void *)b->task_columns;
}

fv_class_room fv_task_room_classes(const fv_builder *b)
{
    const fv_wanted *map = map_of(b);
    const uint64_t all = line_floats(b, map), columns = b->value[map->value].cols;
    const uint64_t n = classes_of(b);
    fv_class_room r = {.line = b->task_room, .pixel = b->task_room + all - columns};
    if (map->kind == FOVEA_OUTPUT_MASKS && n) {
        r.share = b->task_room + all;
        r.score[0] = r.share + columns * n;
        r.score[1] = r.score[0] + b->width * n;
        r.mean = r.score[1] + b->width * n;
        r.columns = (fv_between *)(void *)b->task_run_columns;
    }
    return r;
}

fv_mask_room fv_task_room_masks(const fv_builder *b)
{
    const fv_wanted *map = map_of(b);
    const uint64_t all = line_floats(b, map), columns = b->value[map->value].cols;
    float *wide = b->task_room + all;
    return (fv_mask_room){
        .line = b->task_room,
        .wide = wide,
        .pixel = b->task_room + all - columns,
        .columns = (fv_between *)(void *)b->task_run_columns,
        .work = (fv_query_mask *)(void *)(b->task_room +
                                          fv_round_up((uint32_t)(all + b->width * columns), 2))};
}
