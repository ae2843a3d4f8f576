/* task_output.c: see task_output.h. */
#include "run/task_output.h"

#include <math.h>
#include <string.h>

#include "models/model.h"
#include "plan/task_room.h"

fovea_status fv_task_output_check(const fovea_plan *p, const fovea_output *outs, size_t n_outs)
{
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_require(outs, "the outputs"));
    if (p->frame_planes == 0)
        return fv_fail(FOVEA_ENOTSUP, "the plan is of one operation, not of a model");
    return n_outs == p->b.n_wanted
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "%zu outputs given, the plan has %u", n_outs, p->b.n_wanted);
}

static fovea_status answer(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                           const fv_wanted *w)
{
    const fovea_output *o = &outs[w - p->b.wanted];
    const fv_value *v = &p->b.value[w->value];
    const uint64_t bytes = (uint64_t)v->rows * v->cols * sizeof(float);
    if (!o->data || o->size < bytes)
        return fv_fail(FOVEA_EINVAL, "output %s: a buffer of %zu bytes, it has %llu", w->name,
                       o->data ? o->size : 0, (unsigned long long)bytes);
    *out = (fv_task_output){(const float *)o->data + (size_t)w->grid.prefix * v->cols, v->rows,
                            v->cols, w->grid};
    return FOVEA_OK;
}

fovea_status fv_task_output_named(fv_task_output *out, const fovea_plan *p,
                                  const fovea_output *outs, const char *name)
{
    for (uint32_t i = 0; i < p->b.n_wanted; i++)
        if (strcmp(p->b.wanted[i].name, name) == 0)
            return answer(out, p, outs, &p->b.wanted[i]);
    return fv_fail(FOVEA_EINVAL, "the plan lacks output %s", name);
}

fovea_status fv_task_output_of(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                               fovea_kind kind, const char *usual)
{
    const fv_wanted *w = fv_task_room_find(&p->b, kind);
    if (w)
        return answer(out, p, outs, w);
    return fv_fail(
        FOVEA_EINVAL,
        "the plan lacks output %s; ask for it when the plan is made, if the %s model has "
        "it",
        usual, p->model->info.type);
}

fovea_status fv_task_output_room(const char *what, size_t room, size_t needed)
{
    return room >= needed
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "room for %zu %s; %zu are needed", room, what, needed);
}

fovea_status fv_extent_of(fv_extent *out, const fovea_plan *p, fovea_extent which)
{
    const fovea_plan_info *i = &p->info;
    const double width = i->width - i->ignored_right, height = i->height - i->ignored_bottom;
    FV_TRY(fv_known("extent", (int)which, FOVEA_EXTENT_PICTURE));
    if (which == FOVEA_EXTENT_PICTURE)
        *out = (fv_extent){i->width, i->height, 0, 0, width, height, i->width, i->height};
    else
        *out = (fv_extent){p->frame_width,
                           p->frame_height,
                           i->left,
                           i->top,
                           i->scale_x * width,
                           i->scale_y * height,
                           i->scale_x * i->width,
                           i->scale_y * i->height};
    out->right += out->left;
    out->bottom += out->top;
    return FOVEA_OK;
}

/* `places` places lie along `pixels` pixels from `from` on; the picture ends at `end`. */
static fv_between between(uint32_t i, uint32_t places, double from, double pixels, double end)
{
    const double at = fmin(fmax(0, (i + 0.5 - from) * places / pixels - 0.5), places - 1);
    const uint32_t first = (uint32_t)at;
    return (fv_between){first, first + 1 < places ? first + 1 : first, (float)(at - first),
                        i + 0.5 < from || i + 0.5 >= end};
}

const fv_between *fv_extent_columns(const fv_extent *e, const fovea_plan *p, uint32_t places)
{
    for (uint32_t x = 0; x < e->width; x++)
        p->b.task_columns[x] = between(x, places, e->left, e->across, e->right);
    return p->b.task_columns;
}

fv_between fv_extent_row(const fv_extent *e, uint32_t y, uint32_t places)
{
    return between(y, places, e->top, e->down, e->bottom);
}
