/* task_output.c: see task_output.h. */
#include "run/task_output.h"

#include <math.h>
#include <string.h>

#include "models/model.h"
#include "plan/result_scratch.h"

static fovea_status check_count(const fovea_plan *p, size_t n_outs)
{
    return n_outs == p->graph.n_wanted
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "the caller gave %zu outputs, but the plan has %u", n_outs,
                         p->graph.n_wanted);
}

fovea_status fv_task_output_check(const fovea_plan *p, const fovea_output *outs, size_t n_outs)
{
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_require(outs, "the outputs"));
    if (p->frame.planes == 0)
        return fv_fail(
            FOVEA_ENOTSUP,
            "the plan runs one operation, not a model; pass a plan of fovea_plan_create");
    return check_count(p, n_outs);
}

static fovea_status answer(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                           const fv_wanted *w)
{
    const fovea_output *o = &outs[w - p->graph.wanted];
    const fv_value *v = &p->graph.value[w->value];
    const uint64_t bytes = (uint64_t)v->rows * v->cols * sizeof(float);
    if (!o->data || o->size < bytes)
        return fv_fail(FOVEA_EINVAL, "output %s: the buffer has %zu bytes, but %llu are needed",
                       w->name, o->data ? o->size : 0, (unsigned long long)bytes);
    *out = (fv_task_output){(const float *)o->data + (size_t)w->grid.prefix * v->cols, v->rows,
                            v->cols, w->grid};
    return FOVEA_OK;
}

fovea_status fv_task_output_sizes(const fovea_plan *p, const fovea_output *outs, size_t n_outs)
{
    fv_task_output ignored;
    FV_TRY(check_count(p, n_outs));
    for (uint32_t i = 0; i < p->graph.n_wanted; i++)
        FV_TRY(answer(&ignored, p, outs, &p->graph.wanted[i]));
    return FOVEA_OK;
}

fovea_status fv_task_output_named(fv_task_output *out, const fovea_plan *p,
                                  const fovea_output *outs, const char *name)
{
    for (uint32_t i = 0; i < p->graph.n_wanted; i++)
        if (strcmp(p->graph.wanted[i].name, name) == 0)
            return answer(out, p, outs, &p->graph.wanted[i]);
    return fv_fail(FOVEA_EINVAL, "the plan lacks output %s; plan with that output", name);
}

fovea_status fv_task_output_of(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                               fovea_output_kind kind, const char *usual)
{
    const fv_wanted *w = fv_graph_output(&p->graph, kind);
    if (w)
        return answer(out, p, outs, w);
    return fv_fail(FOVEA_EINVAL,
                   "the plan lacks output %s; plan with that output, if the %s model has it", usual,
                   p->model->info.type);
}

fovea_status fv_task_output_capacity(const char *what, size_t capacity, size_t needed)
{
    return capacity >= needed
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "the buffer has space for %zu %s, but %zu are needed",
                         capacity, what, needed);
}

fovea_status fv_extent_of(fv_extent *out, const fovea_plan *p, fovea_extent which)
{
    const fovea_plan_info *i = &p->info;
    const double width = i->width - i->ignored_right, height = i->height - i->ignored_bottom;
    FV_TRY(fv_known("extent", (int)which, FOVEA_EXTENT_PICTURE));
    if (which == FOVEA_EXTENT_PICTURE)
        *out = (fv_extent){i->width, i->height, 0, 0, width, height, i->width, i->height};
    else
        *out = (fv_extent){p->frame.width,
                           p->frame.height,
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

fovea_status fv_extent_of_canvas(fv_extent *out, const fovea_plan *p)
{
    const fv_canvas canvas = fv_mask_canvas(p);
    FV_TRY(fv_extent_of(out, p, FOVEA_EXTENT_PICTURE));
    const double across = (double)canvas.width / out->width;
    const double down = (double)canvas.height / out->height;
    *out = (fv_extent){.width = canvas.width,
                       .height = canvas.height,
                       .across = out->across * across,
                       .down = out->down * down,
                       .right = out->right * across,
                       .bottom = out->bottom * down};
    return FOVEA_OK;
}

static fv_side side_of(double first, double pixels, double end, uint32_t places)
{
    return (fv_side){(float)(places / pixels), first, end, 0, places};
}

fv_side fv_extent_across(const fv_extent *e, uint32_t places)
{
    return side_of(e->left, e->across, e->right, places);
}

fv_side fv_extent_down(const fv_extent *e, uint32_t places)
{
    return side_of(e->top, e->down, e->bottom, places);
}

/* Maps one side of the map to the canvas (`run` pixels). The canvas begins at map pixel `first`;
 * one of its pixels is `scale` map pixels. */
static fv_side canvas_side(double first, double scale, double end, double pixels, uint32_t run)
{
    const double low = rint(-first / scale), high = rint((pixels - first) / scale);
    return (fv_side){(float)(1 / scale), first, end, low > 0 ? (uint32_t)fmin(low, run - 1.0) : 0,
                     high < run ? (uint32_t)fmax(high, 1) : run};
}

fv_side fv_extent_canvas_across(const fv_extent *e, const fovea_plan *p)
{
    const uint32_t run = fv_mask_canvas(p).width;
    return canvas_side(e->left, (e->right - e->left) / run, e->right, e->width, run);
}

fv_side fv_extent_canvas_down(const fv_extent *e, const fovea_plan *p)
{
    const uint32_t run = fv_mask_canvas(p).height;
    return canvas_side(e->top, (e->bottom - e->top) / run, e->bottom, e->height, run);
}

static float position(const fv_side *s, uint32_t i)
{
    return fmaf(s->scale, (float)(i + 0.5 - s->first), -0.5f);
}

static bool is_outside(const fv_side *s, uint32_t i)
{
    return i + 0.5 < s->first || i + 0.5 >= s->end;
}

fv_between fv_side_between(const fv_side *s, uint32_t i)
{
    const uint32_t last = s->high - 1;
    const float at = fminf(fmaxf((float)s->low, position(s, i)), (float)last);
    const uint32_t first = (uint32_t)at;
    return (fv_between){first, first < last ? first + 1 : first, at - (float)first,
                        is_outside(s, i)};
}

uint32_t fv_side_nearest(const fv_side *s, uint32_t i)
{
    const float at = floorf((float)(i - s->first) * s->scale), last = (float)(s->high - 1);
    return (uint32_t)fminf(fmaxf(at, (float)s->low), last);
}

/* Return the cubic filter of Keys, with slope a = -0.75 at 1: near_cubic for distances from 0 to 1,
 * far_cubic for those from 1 to 2. */
static float near_cubic(float x)
{
    const float a = -0.75f;
    return ((a + 2) * x - (a + 3)) * x * x + 1;
}

static float far_cubic(float x)
{
    const float a = -0.75f;
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

fv_cubic fv_side_cubic(const fv_side *s, uint32_t i)
{
    const double low = s->low, last = s->high - 1.0;
    const float at = position(s, i), below = floorf(at), part = at - below;
    fv_cubic c = {.weight = {far_cubic(part + 1), near_cubic(part), near_cubic(1 - part),
                             far_cubic(2 - part)},
                  .outside = is_outside(s, i)};
    for (int k = 0; k < 4; k++)
        c.place[k] = (uint32_t)fmin(fmax(low, (double)below - 1 + k), last);
    return c;
}

const fv_between *fv_side_columns(fv_between *out, const fv_side *s, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++)
        out[x] = fv_side_between(s, x);
    return out;
}

const fv_between *fv_extent_columns(const fv_extent *e, const fovea_plan *p, uint32_t places)
{
    const fv_side side = fv_extent_across(e, places);
    return fv_side_columns(fv_result_scratch_columns(p), &side, e->width);
}

const fv_cubic *fv_extent_cubic_columns(const fv_extent *e, const fovea_plan *p, uint32_t places)
{
    const fv_side side = fv_extent_across(e, places);
    fv_cubic *column = fv_result_scratch_cubic_columns(p);
    for (uint32_t x = 0; x < e->width; x++)
        column[x] = fv_side_cubic(&side, x);
    return column;
}
