/* sequence_plan.c: makes plans that continue a sequence: they run a model's steps over rows of
 * tokens, and keep the model's states from one call to the next. */
#include "plan/sequence_plan.h"

#include "base/abi.h"
#include "base/mem.h"
#include "checkpoint/source.h"
#include "models/model.h"

#define MAX_ROWS (1u << 20)
#define MAX_CONTEXT (1u << 24) /* positions are exact as floats */

fovea_status fv_sequence_check(const fovea_sequence_options *o)
{
    if (o->rows == 0 || o->rows > MAX_ROWS)
        return fv_fail(FOVEA_EINVAL, "`rows` is %u; it must be from 1 to %u tokens at a time",
                       o->rows, MAX_ROWS);
    if (o->context == 0 || o->context > MAX_CONTEXT)
        return fv_fail(FOVEA_EINVAL, "`context` is %u; it must be from 1 to %u tokens", o->context,
                       MAX_CONTEXT);
    FV_TRY(fv_known("schedule", (int)o->schedule, FOVEA_SCHEDULE_STEPWISE));
    FV_TRY(fv_known("form", (int)o->form, FOVEA_FORM_CHUNK));
    FV_TRY(fv_known("weights", (int)o->weights, FOVEA_DTYPE_I8));
    return fv_known("compute", (int)o->compute, FOVEA_COMPUTE_AUTO);
}

static fovea_status build(fovea_plan *p, const fovea_sequence_options *o,
                          const fv_sequence_request *request)
{
    static const uint32_t forms[] = {[FOVEA_FORM_AUTO] = 0,
                                     [FOVEA_FORM_RECURRENT] = FV_FLAG_RECURRENT,
                                     [FOVEA_FORM_CHUNK] = FV_FLAG_CHUNKWISE};
    const fv_feed feed = {.rows = request->rows,
                          .capacity = o->context,
                          .flags = request->rows == 1 ? FV_FLAG_RECURRENT : forms[o->form],
                          .all = o->all_logits != 0};
    const fv_plan_request r = {.schedule = o->schedule,
                               .memory_limit = o->memory_limit,
                               .dry = request->dry,
                               .kept = request->kept};
    fv_builder b = fv_builder_of(&p->graph, &p->options);
    const bool floats = o->compute == FOVEA_COMPUTE_AUTO;
    p->options.int8_weights = o->weights == FOVEA_DTYPE_I8;
    p->options.weight_type = p->options.int8_weights ? FV_F32 : fv_type_of(o->weights);
    fv_emit_compute(&p->options, floats ? FOVEA_COMPUTE_F32 : o->compute, &p->limits);
    FV_TRY(FV_MEM_NEW(&p->graph.wanted, FV_MEM_PLAN, "the plan's outputs"));
    p->graph.wanted[0] = (fv_wanted){.name = "out", .value = FV_NO_VALUE};
    p->graph.n_wanted = 1;
    FV_TRY(p->model->family->feed(p->model, &b, &feed));
    FV_TRY(b.status);
    p->info.tokens = request->rows;
    p->info.compute = p->options.compute;
    return fv_plan_finish(p, &r);
}

fovea_status fv_sequence_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                              const fovea_sequence_options *o, const fv_sequence_request *request,
                              fv_wisdom *wisdom)
{
    fovea_plan *p;
    if (!model->family->feed)
        return fv_fail(FOVEA_EINVAL,
                       "a %s model reads pictures, not sequences; use fovea_plan_create",
                       model->info.type);
    if (!request->dry)
        FV_TRY(fv_source_unchanged(model->source));
    FV_TRY(fv_plan_alloc(&p, device, wisdom));
    /* The model is const for callers. As in frame_plan.c, its reference count and its list of
     * packed weights change under its lock. */
    p->model = (fovea_model *)(uintptr_t)model;
    fv_model_ref(p->model);
    FV_RETURN_MADE(out, p, fv_plan_free, build(p, o, request));
}
