/* fallback.c: the plan on the CPU that takes over when a plan's device is lost, or replaces a plan
 * that its device cannot run.
 *
 * The fallback plan is made together with the plan, so that taking over allocates nothing. Frames
 * in flight are then submitted to the fallback plan in their order; the caller keeps their pixels
 * and outputs valid until fovea_wait returns. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "plan/frame_plan.h"
#include "plan/plan.h"
#include "platform/os/os_machine.h"
#include "run/fallback.h"

#define PATIENCE                                                                                   \
    10.0 /* default of device_timeout_seconds: large, because a false alarm costs the device */

static fovea_status plan_on_cpu(fovea_plan **out, const fovea_model *model,
                                const fovea_plan_options *options)
{
    fovea_plan_options own = *options;
    fovea_device *device = NULL; /* opened here; the plan holds a reference */
    own.schedule = FOVEA_SCHEDULE_AUTO;
    own.chunk = 0;
    own.activations = FOVEA_DTYPE_F32;
    own.on_device_lost = FOVEA_DEVICE_LOST_FAIL;
    if (options->fallback && options->fallback->backend != fv_backends[0])
        return fv_fail(FOVEA_EINVAL,
                       "fallback device %s is not a CPU; set `fallback` to a CPU device or to NULL",
                       options->fallback->info.id);
    if (!options->fallback)
        FV_TRY(fovea_device_open(&device, "cpu", NULL));
    const fovea_status status =
        fv_frame_plan(out, model, device ? device : options->fallback, &own, fv_wisdom_global());
    fovea_device_close(device);
    return status;
}

static fovea_status make(fv_fallback *s, const fovea_plan *p, const fovea_plan_options *options)
{
    FV_TRY(plan_on_cpu(&s->plan, p->model, options));
    const uint64_t frames = FV_FLIGHTS * (uint64_t)p->info.count;
    FV_TRY(FV_MEM_ARRAY(&s->frames, frames, FV_MEM_PLAN, "the plan's frames"));
    FV_TRY(FV_MEM_ARRAY(&s->outs, frames * p->graph.n_wanted, FV_MEM_PLAN, "the plan's outputs"));
    s->patience = options->device_timeout_seconds > 0 ? options->device_timeout_seconds : PATIENCE;
    return FOVEA_OK;
}

static bool is_wanted(const fovea_device *device, const fovea_plan_options *options)
{
    return options->on_device_lost == FOVEA_DEVICE_LOST_CPU && device->backend != fv_backends[0];
}

fovea_status fv_fallback_make(fovea_plan *p, const fovea_plan_options *options)
{
    if (!is_wanted(p->device, options))
        return FOVEA_OK;
    FV_TRY(make(&p->run.fallback, p, options));
    const fovea_plan_info *i = &p->run.fallback.plan->info;
    const uint64_t bytes = fv_size_add(i->weights, fv_plan_activations(i));
    p->info.fallback = fv_size_add(p->info.fallback, bytes);
    return FOVEA_OK;
}

fovea_status fv_fallback_instead(fovea_plan **out, fovea_status status, const fovea_model *model,
                                 const fovea_device *device, const fovea_plan_options *options)
{
    char why[512];
    fovea_plan *p;
    if (!is_wanted(device, options) || (status != FOVEA_ENOTSUP && status != FOVEA_EDEVICE))
        return status;
    snprintf(why, sizeof why, "%s", fovea_error());
    if (plan_on_cpu(&p, model, options) != FOVEA_OK)
        return fv_fail(status, "%s", why); /* the device was not the reason */
    p->run.fallback.instead = true;
    fv_log("plan: device %s is not used; all frames run on the CPU: %s", device->info.id, why);
    *out = p;
    return FOVEA_OK;
}

void fv_fallback_free(fv_fallback *s)
{
    fovea_plan_free(s->plan);
    fv_mem_free(s->frames);
    fv_mem_free(s->outs);
}

static fovea_output *outs_of(const fovea_plan *p, fovea_ticket ticket)
{
    return p->run.fallback.outs + ticket % FV_FLIGHTS * p->info.count * p->graph.n_wanted;
}

static fovea_frame *frames_of(const fovea_plan *p, fovea_ticket ticket)
{
    return p->run.fallback.frames + ticket % FV_FLIGHTS * p->info.count;
}

void fv_fallback_note(fovea_plan *p, fovea_ticket ticket, const fv_run_input *in,
                      const fovea_output *outs, uint32_t frames)
{
    fv_flight *f = &p->run.flight[ticket % FV_FLIGHTS];
    f->image = in->image;
    f->outs = frames * p->graph.n_wanted;
    f->since = fv_machine_seconds();
    if (in->frame)
        memcpy(frames_of(p, ticket), in->frame, frames * sizeof *in->frame);
    memcpy(outs_of(p, ticket), outs, f->outs * sizeof *outs);
}

double fv_fallback_patience(const fovea_plan *p, fovea_ticket ticket)
{
    const double since = p->run.flight[(p->run.completed + 1) % FV_FLIGHTS].since;
    const double from = since > p->run.fallback.completed ? since : p->run.fallback.completed;
    const double left = from + p->run.fallback.patience * (double)(ticket - p->run.completed) -
                        fv_machine_seconds();
    return left > 0 ? left : 0;
}

fovea_status fv_fallback_take_over(fovea_plan *p)
{
    p->run.fallback.used = true;
    p->run.trace.event = NULL;
    p->device->backend->queue_close(p->run.queue);
    p->run.queue = NULL;
    for (fovea_ticket t = p->run.completed + 1; t <= p->run.ticket; t++) {
        fv_flight *f = &p->run.flight[t % FV_FLIGHTS];
        const fv_run_input in = {.frame = frames_of(p, t), .image = f->image};
        fv_flight_end(f);
        FV_TRY(fv_run_submit(p->run.fallback.plan, &in, outs_of(p, t), f->outs, &f->fence));
    }
    return FOVEA_OK;
}

fovea_status fv_fallback_wait(fovea_plan *p, fovea_ticket ticket, double timeout)
{
    const fovea_status status =
        fovea_wait(p->run.fallback.plan, p->run.flight[ticket % FV_FLIGHTS].fence, timeout);
    if (status == FOVEA_ETIMEOUT)
        return status;
    p->run.seconds = p->run.fallback.plan->run.seconds;
    while (p->run.completed < ticket)
        p->run.flight[++p->run.completed % FV_FLIGHTS].status = FOVEA_OK;
    p->run.flight[ticket % FV_FLIGHTS].status = status;
    return status;
}

int fovea_plan_device_lost(const fovea_plan *plan)
{
    return plan->run.fallback.used || plan->run.fallback.instead;
}
