/* trial.c: makes a single-step trial, and allocates the operands of one step on a device, each
 * between guard bytes. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "models/model.h"
#include "plan/plan.h"
#include "trial/trial_fill.h"
#include "trial/trial_parts.h"

void fv_zone_poison(uint8_t *p, uint64_t size)
{
    static const uint8_t bytes[] = {0xa5, 0xa5, 0xe5, 0xff}; /* NaN as float32 */
    for (uint64_t i = 0; i < size; i++)
        p[i] = bytes[i % sizeof bytes];
}

static bool reduces(const fv_step *s)
{
    return fv_step_span(s) == FV_SPAN_REDUCE;
}

/* ---- the problem ---- */

/* Limits the step to `rows` rows, split into the same number of tiles. */
static void shorten(fv_step *s, fv_step_tiles *t, uint32_t rows)
{
    const uint32_t all = s->prob.dim[FV_DIM_ROWS], align = s->align ? s->align : 1;
    rows = rows ? fv_min_u32(all, fv_ceil_div(rows, align) * align) : all;
    if (rows == all)
        return;
    const uint32_t tile = (uint32_t)((uint64_t)t->rows * rows / all);
    t->rows = fv_ceil_div(tile ? tile : 1, align) * align;
    s->prob.dim[FV_DIM_ROWS] = rows;
    for (uint32_t i = 0; i < FV_DIMS; i++)
        if (fv_op_table[s->prob.op]->dim[i].kind == FV_DIM_SAME)
            s->prob.dim[i] = rows;
}

static uint32_t *groups_of(fv_problem *p)
{
    return &p->dim[fv_op_table[p->op]->groups];
}

/* Makes a sweep of only this step. A reduction keeps its number of reduction groups or partial
 * states, unless there are fewer chunks. */
static void schedule(fv_trial *r, uint32_t chunk)
{
    fv_step *s = &r->step;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS];
    const uint8_t span = fv_step_span(s);
    const bool alone = span == FV_SPAN_ALL || span == FV_SPAN_SCAN;
    const uint32_t align = s->align ? s->align : 1;
    fv_sweep *w = &r->sweep;
    *w = (fv_sweep){.steps = 1, .rows = rows, .partials = 1, .groups = 1, .runs = 1};
    w->streamed = chunk && !alone && rows > 1;
    w->chunk = w->streamed  ? fv_min_u32(fv_ceil_div(chunk, align) * align, rows)
               : reduces(s) ? fv_min_u32(r->tiles.rows, rows)
                            : rows;
    if (r->limits.throughput) {
        w->chunk = w->streamed ? w->chunk : rows;
        r->tiles.rows = rows;
        r->tiles.cols = r->tiles.all_cols;
        if (reduces(s))
            w->partials = *groups_of(&s->prob) = fv_min_u32(*groups_of(&s->prob), rows);
        return;
    }
    const uint32_t chunks = fv_ceil_div(rows, w->chunk);
    w->groups = w->runs = chunks;
    if (reduces(s))
        w->groups = w->runs = *groups_of(&s->prob) = fv_min_u32(*groups_of(&s->prob), chunks);
    if (w->streamed || reduces(s))
        r->tiles.rows = w->chunk;
}

/* ---- operands ---- */

static fv_zone *zone_of(fv_trial *r, const fv_value *v)
{
    for (uint32_t i = 0; i < r->zones; i++)
        if (r->zone[i].value == v)
            return &r->zone[i];
    r->zone[r->zones].value = v;
    return &r->zone[r->zones++];
}

fv_given fv_trial_given(const fv_trial *r, uint32_t o, const uint8_t *zone)
{
    const fv_zone *z = r->of[o];
    const uint64_t col = r->step.use[o].view.col;
    return (fv_given){.data = zone + FV_ZONE_GUARD + col * fv_type_size(z->value->type),
                      .count = z->rows * z->value->ld - col,
                      .kind = r->operand[o].kind,
                      .type = z->value->type};
}

uint32_t fv_trial_columns(const fv_trial *r, uint32_t o)
{
    const fv_value *v = r->of[o]->value;
    const uint32_t cols = v->cols - r->step.use[o].view.col;
    const bool rows = r->operand[o].kind == FV_KIND_ROW;
    return o == r->step.out && rows ? fv_min_u32(cols, fv_reference_columns(&r->step.prob)) : cols;
}

bool fv_trial_in_place(const fv_trial *r)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (o != r->step.out && r->of[o] == r->of[r->step.out] &&
            r->step.use[o].view.col == r->step.use[r->step.out].view.col)
            return true;
    return false;
}

static fovea_status fill_zones(fv_trial *r)
{
    const uint32_t out = r->step.out;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        if (!r->of[o] || o == out)
            continue;
        const fv_given g = fv_trial_given(r, o, r->of[o]->image);
        FV_TRY(fv_trial_fill(&r->args, o, g.type, r->of[o]->rows, fv_trial_columns(r, o),
                             r->of[o]->value->ld, (void *)(uintptr_t)g.data));
    }
    const fv_zone *z = r->of[out];
    const uint64_t stride = fv_value_stride(z->value), size = fv_type_size(z->value->type);
    uint8_t *first = z->image + FV_ZONE_GUARD + r->step.use[out].view.col * size;
    for (uint64_t row = 0; row < z->rows && !fv_trial_in_place(r); row++)
        fv_zone_poison(first + row * stride, fv_trial_columns(r, out) * size);
    return FOVEA_OK;
}

static fovea_status place_zones(fv_trial *r)
{
    const fv_backend *be = r->device->backend;
    for (uint32_t i = 0; i < r->zones; i++) {
        fv_zone *z = &r->zone[i];
        z->size = fv_size_add(fv_zone_extent(z), 2 * FV_ZONE_GUARD);
        FV_TRY(fv_mem_alloc(&z->image, z->size, FV_MEM_PLAN, "an operand of a trial"));
        fv_zone_poison(z->image, z->size);
    }
    FV_TRY(fill_zones(r));
    for (uint32_t i = 0; i < r->zones; i++) {
        fv_zone *z = &r->zone[i];
        FV_TRY(be->alloc(r->device->device, z->size, "an operand", &z->mem));
        FV_TRY(be->write(r->device->device, &z->mem, z->image, z->size));
    }
    return FOVEA_OK;
}

fovea_status fv_zone_reset(const fv_trial *r, fv_zone *z)
{
    return r->device->backend->write(r->device->device, &z->mem, z->image, z->size);
}

static void describe_weight(fv_trial *r, uint32_t o)
{
    const fv_weight *w = &r->step.use[o].weight;
    r->tensor[o] = fv_trial_weight(&r->step.prob, o, w->rows, w->cols);
    r->weight[o] = fv_weight_of(&r->tensor[o], w->rows, w->cols);
    r->weight[o].type = w->type;
    r->operand[o].type = r->args.type[o] =
        (uint8_t)(fv_step_narrow(&r->step, o) ? r->step.prob.weight : FV_F32);
    r->args.ld[o] = w->rows > 1 ? w->cols : 0;
}

static void describe_value(fv_trial *r, uint32_t o, const fv_value *v)
{
    const bool row = r->step.use[o].kind == FV_KIND_ROW;
    const uint32_t rows = r->step.prob.dim[FV_DIM_ROWS];
    fv_zone *z = r->of[o] = zone_of(r, v);
    const uint64_t wanted = row ? rows : v->rows;
    z->rows = wanted > z->rows ? wanted : z->rows;
    r->operand[o].type = r->args.type[o] = v->type;
    r->operand[o].stride = fv_value_stride(v);
    r->args.ld[o] = v->ld;
}

static fovea_status describe_operands(fv_trial *r, const fv_graph *g)
{
    const fv_step *s = &r->step;
    fv_step_args(&r->args, s);
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        r->operand[o].kind = s->use[o].kind;
        if (fv_weight_present(&s->use[o].weight))
            describe_weight(r, o);
        else if (s->use[o].view.id >= 0)
            describe_value(r, o, &g->value[s->use[o].view.id]);
    }
    FV_TRY(place_zones(r));
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (r->of[o])
            r->operand[o].ref =
                (fv_ref){.space = FV_SPACE_BUFFER,
                         .offset = FV_ZONE_GUARD +
                                   (uint64_t)s->use[o].view.col * fv_type_size(r->operand[o].type),
                         .mem = &r->of[o]->mem};
    return FOVEA_OK;
}

fovea_status fv_trial_open(fv_trial **out, fovea_device *device, const fv_graph *g,
                           const fv_step *s, const fv_step_tiles *tiles, uint32_t rows,
                           uint32_t chunk)
{
    fv_trial *r;
    FV_TRY(FV_MEM_NEW(&r, FV_MEM_PLAN, "a trial"));
    r->device = fv_device_ref(device);
    r->step = *s;
    device->backend->limits(device->device, &r->limits);
    r->tiles = tiles ? *tiles : fv_sweep_tile(s, r->limits.threads);
    shorten(&r->step, &r->tiles, rows);
    schedule(r, chunk);
    fovea_status status = fv_model_blank(&r->model);
    FV_THEN(status, describe_operands(r, g));
    FV_RETURN_MADE(out, r, fv_trial_close, status);
}

void fv_trial_close(fv_trial *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->zones; i++) {
        if (r->zone[i].mem.size)
            r->device->backend->release(r->device->device, &r->zone[i].mem);
        fv_mem_free(r->zone[i].image);
    }
    fv_reference_close(r->reference);
    fovea_model_free(r->model);
    fv_device_unref(r->device);
    fv_mem_free(r);
}
