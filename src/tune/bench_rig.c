/* bench_rig.c: runs sweeps and steps of a plan on its own inputs and outputs. */
#include "tune/bench_rig.h"

#include "base/half.h"
#include "base/mem.h"
#include "platform/os/os_machine.h"

#define TIMEOUT 600.0 /* maximum seconds of a frame */

/* Fills memory with random bytes, or with floats in [-1, 1). */
static void fill_random(void *data, enum fv_type type, uint64_t n)
{
    uint32_t x = 1;
    for (uint64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        if (type == FV_U8)
            ((uint8_t *)data)[i] = (uint8_t)(x >> 24);
        else
            fv_value_put(data, type, i, (float)(int32_t)x * 0x1p-31f);
    }
}

static fovea_status provide(fv_bench_rig *s)
{
    const fv_graph *g = &s->plan->graph;
    FV_TRY(FV_MEM_ARRAY(&s->external, g->values, FV_MEM_PLAN, "a frame to tune"));
    for (uint32_t i = 0; i < g->values; i++) {
        const fv_value *v = &g->value[i];
        if (!fv_value_outside(v))
            continue;
        const uint64_t bytes = fv_size_mul(v->rows, fv_value_stride(v));
        FV_TRY(fv_mem_alloc(&s->external[i], bytes, FV_MEM_PLAN, "a frame to tune"));
        fill_random(s->external[i], v->type, (uint64_t)v->rows * v->ld);
    }
    return FOVEA_OK;
}

fovea_status fv_bench_rig_open(fv_bench_rig *out, fovea_plan *plan)
{
    fv_bench_rig s = {.plan = plan};
    const fv_backend *be = plan->device->backend;
    double seconds;
    fovea_status status = provide(&s);
    if (be->timed)
        FV_THEN(status, be->timed(plan->run.queue, true));
    FV_THEN(status, fv_bench_rig_run(&s, 0, plan->cut.sweeps, &seconds));
    if (status == FOVEA_OK)
        *out = s;
    else
        fv_bench_rig_close(&s);
    return status;
}

void fv_bench_rig_close(fv_bench_rig *s)
{
    if (!s->plan)
        return;
    const uint32_t values = s->plan->graph.values;
    for (uint32_t i = 0; s->external && i < values; i++)
        fv_mem_free(s->external[i]);
    fv_mem_free(s->external);
    fv_plan_free(s->plan);
    *s = (fv_bench_rig){NULL, NULL};
}

static fovea_status bring(const fv_bench_rig *s)
{
    const fovea_plan *p = s->plan;
    const fv_backend *be = p->device->backend;
    for (uint32_t i = 0; i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (v->kind == FV_VALUE_INPUT)
            FV_TRY(be->upload(p->run.queue, v->slot, s->external[i], fv_value_stride(v)));
        if (v->kind == FV_VALUE_OUTPUT)
            FV_TRY(be->download(p->run.queue, v->slot, s->external[i], fv_value_stride(v)));
    }
    return fv_plan_kept_reset(p);
}

static fovea_status run_sweeps(const fv_bench_rig *s, const fv_sweep *sweep, uint32_t count,
                               double *seconds)
{
    const fovea_plan *p = s->plan;
    const fv_backend *be = p->device->backend;
    fv_fence fence;
    FV_TRY(bring(s));
    const double begin = fv_machine_seconds();
    FV_TRY(be->submit(p->run.queue, sweep, count, FV_ALL, &fence));
    FV_TRY(be->wait(p->run.queue, fence, TIMEOUT, seconds));
    if (*seconds <= 0)
        *seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}

fovea_status fv_bench_rig_run(fv_bench_rig *s, uint32_t first, uint32_t count, double *seconds)
{
    const fovea_plan *p = s->plan;
    const fv_backend *be = p->device->backend;
    if (be->prepare) /* makes the sweeps run as fast as in a whole frame */
        FV_TRY(be->prepare(p->run.queue, p->run.sweep + first, count, FV_ALL));
    return run_sweeps(s, p->run.sweep + first, count, seconds);
}

fovea_status fv_bench_rig_step(fv_bench_rig *s, uint32_t sweep, uint32_t step)
{
    fv_sweep one = s->plan->run.sweep[sweep];
    double seconds;
    one.step += step;
    one.steps = 1;
    return run_sweeps(s, &one, 1, &seconds);
}
