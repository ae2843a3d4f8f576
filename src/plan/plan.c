/* plan.c: creates an empty plan; runs the phases from a list of steps to a bound plan. */
#include "plan/plan.h"

#include <stdio.h>

#include "base/mem.h"
#include "models/model.h"
#include "weights/packed.h"

/* Packs weights, allocates memory and binds the steps of a plan that was fitted. */
static fovea_status place(fovea_plan *p, const fovea_plan *kept)
{
    FV_TRY(fv_plan_pack(p));
    if (!p->limits.throughput) /* otherwise the next candidate may pack the weight again, in
                                  another order */
        fv_graph_drop_constants(&p->graph);
    FV_TRY(fv_plan_allocate(p, kept));
    return fv_plan_bind(p);
}

/* Halves the memory for chunks until the plan can be allocated; fails if even the smallest chunks
 * cannot. Called when memory that was reported free could not be allocated, because other programs
 * took it, it is fragmented, or the driver reported the total instead. */
static fovea_status place_smaller(fovea_plan *p, const fv_plan_request *r)
{
    char first[FV_MESSAGE];
    fovea_status status = FOVEA_ENOMEM;
    fv_plan_request smaller = *r;
    snprintf(first, sizeof first, "%s", fovea_error());
    while (status == FOVEA_ENOMEM) {
        fv_plan_unplace(p);
        const uint64_t half = p->info.chunks / 2;
        smaller.memory_limit = fv_plan_activations(&p->info) - (half ? half : 1);
        if (fv_plan_fit(p, &smaller) != FOVEA_OK)
            break;
        fv_log("%s: %s; the plan uses %.1f MiB instead", p->device->info.id, first,
               (double)fv_plan_activations(&p->info) / (1 << 20));
        status = place(p, r->kept);
    }
    if (status != FOVEA_ENOMEM || p->free_memory == UINT64_MAX)
        return status == FOVEA_ENOMEM ? fv_fail(status, "%s", first) : status;
    return fv_fail(status, "%s; the limit for plans is %.1f MiB of the free memory of device %s",
                   first, (double)p->free_memory / (1 << 20), p->device->info.id);
}

/* Fits and places the plan. If the device refuses kernels, tries again with other kernels until
 * none are left. */
static fovea_status fit_and_place(fovea_plan *p, const fv_plan_request *r)
{
    fovea_status status;
    uint32_t refusals;
    do {
        fv_plan_unplace(p);
        refusals = p->refused.count;
        FV_TRY(fv_plan_fit(p, r));
        if (r->dry)
            return FOVEA_OK;
        status = place(p, r->kept);
        if (status == FOVEA_ENOMEM && p->limits.throughput)
            status = place_smaller(p, r);
    } while (status == FOVEA_ENOTSUP && p->refused.count > refusals);
    if (status == FOVEA_OK)
        fv_plan_keep_refusals(p);
    return status;
}

/* Returns whether sweeps may be banded. Throughput devices compute all rows of a step at once, and
 * training needs the values between steps afterwards, so neither has bands. */
static bool has_bands(const fovea_plan *p)
{
    return !p->limits.throughput && !p->options.training;
}

fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r)
{
    fv_graph_demand(&p->graph);
    fv_emit_narrow(&p->graph, &p->options);
    const fv_cut_request cut = {p->info.threads, has_bands(p)};
    FV_TRY(fv_cut_make(&p->cut, &p->graph, &cut));
    p->dry = r->dry;
    if (!r->dry) /* a dry plan reads no weights */
        FV_TRY(fv_plan_equalise(p));
    FV_TRY(fit_and_place(p, r));
    if (!r->dry)
        fv_graph_drop_constants(&p->graph);
    return fv_plan_describe_steps(p);
}

/* Maximum number of elements of a buffer, which GPU kernels index with 32 bits. */
#define COUNTED ((uint64_t)UINT32_MAX)

fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom)
{
    fovea_plan *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_PLAN, "the plan"));
    p->device = fv_device_ref(device);
    p->options.weight_type = p->options.row_type = FV_F32;
    device->backend->limits(device->device, &p->limits);
    if (p->limits.throughput && p->limits.largest > COUNTED)
        p->limits.largest = COUNTED;
    p->info.count = 1;
    p->info.threads = p->limits.threads;
    p->info.compute_source = "forced";
    fv_advice_begin(&p->advice, wisdom, device, p->limits.threads);
    *out = p;
    return FOVEA_OK;
}

void fv_plan_unplace(fovea_plan *p)
{
    const fv_backend *be = p->device->backend;
    if (p->run.queue)
        be->queue_close(p->run.queue);
    p->run.queue = NULL;
    for (int i = 0; i < FV_FLIGHTS; i++)
        fv_flight_end(&p->run.flight[i]);
    for (uint32_t i = 0; p->run.bound && i < p->info.count * p->info.steps; i++)
        if (p->run.bound[i])
            be->unbind(p->device->device, p->run.bound[i]);
    for (uint32_t i = 0; i < p->chosen.first_bank[FV_REGIONS]; i++) {
        fv_mem *m = &p->chosen.bank[i].mem;
        const bool others = p->shares_kept && i >= p->chosen.first_bank[FV_REGION_KEPT] &&
                            i < p->chosen.first_bank[FV_REGION_KEPT + 1];
        if ((m->host || m->handle) && !others)
            be->release(p->device->device, m);
        *m = (fv_mem){.host = NULL};
    }
    fv_mem_free(p->run.bound);
    fv_mem_free(p->run.sweep);
    p->run.bound = NULL;
    p->run.sweep = NULL;
}

void fv_plan_free(fovea_plan *p)
{
    if (!p)
        return;
    fv_plan_unplace(p);
    for (uint32_t i = 0; p->packed && i < p->graph.steps * FV_OPERANDS; i++)
        fv_packed_unref(&p->model->shared, p->packed[i]);
    for (uint32_t i = 0; p->problem_text && i < p->graph.steps; i++)
        fv_mem_free(p->problem_text[i]);
    fv_mem_free(p->packed);
    fv_mem_free(p->equal);
    fv_candidate_free(&p->chosen);
    fv_cut_free(&p->cut);
    fv_graph_release(&p->graph);
    fv_mem_free(p->options.attention);
    fv_picture_free(&p->frame.picture);
    fv_mem_free(p->frame.crops.pixels);
    fv_mem_free(p->problem_text);
    fv_mem_free(p->untrained);
    fv_mem_free(p->refused.list);
    fovea_model_free(p->model);
    fv_device_unref(p->device);
    fv_mem_free(p);
}
