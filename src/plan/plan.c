/* plan.c: creates an empty plan; runs the phases from a list of steps to a bound plan. */
#include "plan/plan.h"

#include "base/mem.h"
#include "models/model.h"
#include "models/packed.h"

fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r)
{
    FV_TRY(p->b.status);
    fv_sweep_demand(&p->b);
    fv_emit_narrow(&p->b);
    FV_TRY(fv_sweep_cut(p));
    FV_TRY(fv_plan_fit(p, r));
    FV_TRY(fv_plan_describe_steps(p));
    p->dry = r->dry;
    if (r->dry)
        return FOVEA_OK;
    FV_TRY(fv_plan_pack(p));
    fv_emit_drop_constants(&p->b);
    FV_TRY(fv_plan_allocate(p, r->kept));
    return fv_plan_bind(p);
}

/* GPU kernels index the elements of a buffer with 32 bits: the limit on a buffer's elements. */
#define COUNTED ((uint64_t)UINT32_MAX)

fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom)
{
    fovea_plan *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_PLAN, "the plan"));
    p->device = fv_device_ref(device);
    p->b.weight_type = p->b.row_type = FV_F32;
    device->backend->limits(device->device, &p->limits);
    if (p->limits.throughput && p->limits.largest > COUNTED)
        p->limits.largest = COUNTED;
    p->info.threads = p->limits.threads;
    p->info.compute_source = "forced";
    fv_advice_begin(&p->advice, wisdom, device, p->limits.threads);
    *out = p;
    return FOVEA_OK;
}

void fv_plan_free(fovea_plan *p)
{
    if (!p)
        return;
    const fv_backend *be = p->device->backend;
    if (p->queue)
        be->queue_close(p->queue);
    for (uint32_t i = 0; p->bound && i < p->info.steps; i++)
        if (p->bound[i])
            be->unbind(p->device->device, p->bound[i]);
    for (uint32_t i = 0; i < p->first_bank[FV_REGIONS]; i++)
        if ((p->bank[i].mem.host || p->bank[i].mem.handle) &&
            !(p->shares_kept && &p->bank[i].mem == fv_plan_kept(p)))
            be->release(p->device->device, &p->bank[i].mem);
    fv_mem_free(p->bank);
    for (uint32_t i = 0; i < p->b.steps; i++) {
        for (uint32_t o = 0; o < FV_OPERANDS; o++)
            fv_packed_unref(p->model, p->b.step[i].use[o].packed);
        if (p->problem_text)
            fv_mem_free(p->problem_text[i]);
    }
    fv_emit_release(&p->b);
    fv_picture_free(&p->picture);
    fv_mem_free(p->bound);
    fv_mem_free(p->run);
    for (uint32_t i = 0; i < p->sweeps; i++)
        fv_mem_free(p->sweep[i].band);
    fv_mem_free(p->sweep);
    fv_mem_free(p->problem_text);
    fovea_model_free(p->model);
    fv_device_unref(p->device);
    fv_mem_free(p);
}
