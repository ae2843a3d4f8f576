/* task_room.c: see task_room.h. */
#include "plan/task_room.h"

#include "base/num.h"

enum {
    WORK_FLOATS = sizeof(fv_query_mask) / sizeof(float),
    COLUMN_WORDS = sizeof(fv_between) / sizeof(uint32_t),
};

const fv_wanted *fv_task_room_find(const fv_builder *b, fovea_kind kind)
{
    for (uint32_t i = 0; i < b->n_wanted; i++)
        if (b->wanted[i].kind == kind && b->wanted[i].value != FV_NO_VALUE)
            return &b->wanted[i];
    return NULL;
}

/* The output that is a map of classes, or of masks. */
static const fv_wanted *map_of(const fv_builder *b)
{
    const fv_wanted *map = fv_task_room_find(b, FOVEA_KIND_CLASS_MAP);
    return map ? map : fv_task_room_find(b, FOVEA_KIND_MASKS);
}

static uint64_t line_floats(const fv_builder *b, const fv_wanted *map)
{
    return ((uint64_t)map->grid.width + 1) * b->value[map->value].cols;
}

/* That the map of classes, or the masks, take. */
static uint64_t map_floats(const fv_builder *b, const fv_wanted *map)
{
    const fv_wanted *classes = fv_task_room_find(b, FOVEA_KIND_MASK_CLASSES);
    uint64_t floats = line_floats(b, map);
    if (map->kind == FOVEA_KIND_MASKS && classes) {
        const uint64_t queries = b->value[classes->value].rows, n = b->value[classes->value].cols;
        const uint64_t shares = (queries + 1) * n, works = queries * WORK_FLOATS + 1;
        floats += shares > works ? shares : works;
    }
    return floats;
}

void fv_task_room_reserve(fv_builder *b, uint32_t frame_width)
{
    const fv_wanted *map = map_of(b), *depth = fv_task_room_find(b, FOVEA_KIND_DEPTH);
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
    b->task_columns = (fv_between *)(void *)fv_emit_table(b, columns * COLUMN_WORDS);
}

fv_class_room fv_task_room_classes(const fv_builder *b)
{
    const fv_wanted *map = map_of(b), *classes = fv_task_room_find(b, FOVEA_KIND_MASK_CLASSES);
    const uint64_t all = line_floats(b, map), columns = b->value[map->value].cols;
    fv_class_room r = {.line = b->task_room, .pixel = b->task_room + all - columns};
    if (map->kind == FOVEA_KIND_MASKS && classes) {
        r.share = b->task_room + all;
        r.score = r.share + columns * (b->value[classes->value].cols - 1);
    }
    return r;
}

fv_mask_room fv_task_room_masks(const fv_builder *b)
{
    const fv_wanted *map = map_of(b);
    const uint64_t all = line_floats(b, map), columns = b->value[map->value].cols;
    return (fv_mask_room){
        .line = b->task_room,
        .pixel = b->task_room + all - columns,
        .work = (fv_query_mask *)(void *)(b->task_room + fv_round_up((uint32_t)all, 2))};
}
